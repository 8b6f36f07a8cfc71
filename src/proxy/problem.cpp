#include "problem.hpp"

#include "http/accept.hpp"

#include <boost/beast/http/status.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace proxy {
namespace {

constexpr std::string_view json = "application/json";
constexpr std::string_view problem_json = "application/problem+json";

// A type and its title.
struct kind {
    std::string_view type;
    std::string_view title;
};

kind kind_of(problem const& what) {
    namespace beast = boost::beast::http;
    if (what.violated.empty())
        return {"about:blank", beast::obsolete_reason(static_cast<beast::status>(what.status))};
    if (what.status != 503)
        return {"https://iana.org/assignments/http-problem-types#quota-exceeded",
                "Request cannot be satisfied as assigned quota has been exceeded"};
    return {"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            "Request cannot be satisfied due to temporary server capacity constraints"};
}

// The texts contain no character that needs an escape in JSON.
void write_problem(std::string& out, problem const& what) {
    auto const [type, title] = kind_of(what);
    fmt::format_to(std::back_inserter(out),
                   R"({{"type":"{}","title":"{}","status":{},"detail":"{}")", type, title,
                   what.status, what.why);
    if (!what.violated.empty())
        out.append(",\"violated-policies\":[").append(what.violated).append("]");
    out.append("}\n");
}

// The best quality so far.
class choice {
public:
    // Returns whether `quality` is better than all before.
    bool offer(unsigned quality) noexcept {
        bool const better = quality > best_;
        best_ = std::max(best_, quality);
        return better;
    }

private:
    unsigned best_ = 0;
};

}  // namespace

own_body choose_body(std::span<config::body const> bodies, problem const& what,
                     std::string_view accept, std::string& memory) {
    choice wanted;
    config::body const* first = nullptr;
    config::body const* best = nullptr;
    for (auto const& b : bodies) {
        if (std::ranges::find(b.status, what.status) == b.status.end())
            continue;
        if (!first)
            first = &b;
        auto const type = std::string_view(b.type).substr(0, b.type.find_first_of("; "));
        if (wanted.offer(http::quality_of(accept, type)))
            best = &b;
    }
    bool const line = wanted.offer(http::quality_of(accept, "text/plain"));
    bool const names_json =
        http::names_type(accept, json) && !http::names_type(accept, problem_json);
    memory.clear();
    if (wanted.offer(http::quality_of(accept, names_json ? json : problem_json))) {
        write_problem(memory, what);
        return {problem_json, memory};
    }
    if (!line && !best)
        best = first;
    if (best && !line)
        return {best->type, best->text};
    memory.append(what.why).append("\n");
    return {"text/plain", memory};
}

}  // namespace proxy
