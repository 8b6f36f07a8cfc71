#include "exposition.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

namespace admin {
namespace {

constexpr std::array type_names{"counter", "gauge", "histogram"};

void append_escaped(std::string& text, std::string_view value) {
    for (char const c : value) {
        if (c == '\\' || c == '"')
            text += '\\';
        if (c == '\n')
            text += "\\n";
        else
            text += c;
    }
}

labels with_end(labels of, std::string end) {
    of.push_back({"le", std::move(end)});
    return of;
}

}  // namespace

void exposition::family(std::string_view name, std::string_view help, metric type) {
    name_ = name;
    head_ = fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help,
                        type_names[static_cast<std::size_t>(type)]);
}

void exposition::add(double value, labels const& of) {
    sample("", of, value);
}

void exposition::add(std::uint64_t value, labels const& of) {
    sample("", of, value);
}

void exposition::add(histogram const& h, labels const& of) {
    for (auto const& b : h.buckets)
        sample("_bucket", with_end(of, fmt::format("{}", b.end)), b.count);
    sample("_bucket", with_end(of, "+Inf"), h.count);
    sample("_sum", of, h.sum);
    sample("_count", of, h.count);
}

template <class Value>
void exposition::sample(std::string_view suffix, labels const& of, Value value) {
    text_ += std::exchange(head_, {});
    text_.append(name_).append(suffix);
    char before = '{';
    for (auto const& l : of) {
        text_ += std::exchange(before, ',');
        text_.append(l.name).append("=\"");
        append_escaped(text_, l.value);
        text_ += '"';
    }
    if (!of.empty())
        text_ += '}';
    fmt::format_to(std::back_inserter(text_), " {}\n", value);
}

}  // namespace admin
