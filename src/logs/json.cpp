#include "json.hpp"

#include "number.hpp"
#include "request_line.hpp"
#include "stamp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

namespace logs {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr int most_depth = 32;

// What stands for the start of a text within which nothing has been found.
constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

// A member that is looked for, under any of its names.
struct wanted {
    std::vector<std::string> names;
    std::string_view value;
    std::size_t which = nowhere;  // of the names has been found
};

// Goes through a text of JSON once, and notes the members that are wanted. Strings are left as they are written.
class scan {
public:
    scan(std::string_view text, std::vector<wanted>& all, std::string& path) noexcept
        : at_(text.data()), end_(text.data() + text.size()), all_(all), path_(path) {}

    bool line() {
        path_.clear();
        blank();
        if (at_ == end_ || *at_ != '{' || !object(0))
            return false;
        blank();
        return at_ == end_;
    }

private:
    void blank() noexcept {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\t'))
            ++at_;
    }
    bool has(char c) noexcept {
        blank();
        if (at_ == end_ || *at_ != c)
            return false;
        ++at_;
        return true;
    }
    std::optional<std::string_view> string() noexcept {
        if (!has('"'))
            return {};
        auto const* const begin = at_;
        for (; at_ != end_ && *at_ != '"'; ++at_)
            if (*at_ == '\\' && ++at_ == end_)
                return {};
        if (at_ == end_)
            return {};
        return std::string_view(begin, static_cast<std::size_t>(at_++ - begin));
    }
    bool object(int depth) {
        if (!has('{') || depth == most_depth)
            return false;
        if (has('}'))
            return true;
        do {
            auto const name = string();
            if (!name || !has(':'))
                return false;
            auto const length = path_.size();
            if (length != 0)
                path_ += '.';
            path_ += *name;
            if (!value(depth + 1))
                return false;
            path_.resize(length);
        } while (has(','));
        return has('}');
    }
    bool array(int depth) {
        if (!has('[') || depth == most_depth)
            return false;
        if (has(']'))
            return true;
        auto const length = path_.size();
        path_ += "[]";
        do {
            if (!value(depth + 1))
                return false;
        } while (has(','));
        path_.resize(length);
        return has(']');
    }
    bool value(int depth) {
        blank();
        if (at_ == end_)
            return false;
        if (*at_ == '{')
            return object(depth);
        if (*at_ == '[')
            return array(depth);
        if (*at_ == '"') {
            auto const text = string();
            if (text)
                note(*text);
            return text.has_value();
        }
        auto const* const begin = at_;
        while (at_ != end_ && !std::strchr(",]} \t", *at_))
            ++at_;
        std::string_view const word(begin, static_cast<std::size_t>(at_ - begin));
        if (word.empty())
            return false;
        if (word != "null")
            note(word);
        return true;
    }
    void note(std::string_view text) noexcept {
        for (auto& w : all_)
            for (std::size_t i = 0; i != w.names.size() && i < w.which; ++i)
                if (w.names[i] == path_) {
                    w.value = text;
                    w.which = i;
                }
    }

    char const* at_;
    char const* end_;
    std::vector<wanted>& all_;
    std::string& path_;
};

class json_reader final : public line_reader {
public:
    json_reader(json_names names, stamped when, std::vector<key_source> const& keys)
        : when_(when), unit_(names.unit), keys_(keys) {
        for (auto* const n :
             {&names.time, &names.client, &names.request, &names.target, &names.method, &names.host,
              &names.status, &names.took, &names.waited})
            members_.push_back({std::move(*n), {}, nowhere});
        for (auto const& k : keys_)
            members_.push_back(
                {k.what == key_source::kind::field ? names_of(k.name) : std::vector<std::string>(),
                 {},
                 nowhere});
    }

    bool read(std::string_view line, entry& e) override {
        e = {};
        for (auto& m : members_) {
            m.value = {};
            m.which = nowhere;
        }
        if (!scan(line, members_, path_).line())
            return false;
        auto const s = times_(members_[time].value);
        auto const code = status_of(members_[status].value);
        if (!s || (members_[status].which != nowhere && !code))
            return false;
        e.at = s->at;
        e.whole_second = s->whole_second;
        e.status = code.value_or(0);
        if (auto const took_it = time_in(unit_, members_[took].value)) {
            // What weir-proxy has turned away was not served.
            auto const in_queue = time_in(unit_, members_[waited].value);
            bool const was_refused = in_queue && (e.status == 429 || e.status == 503);
            if (!was_refused)
                e.held = std::max(*took_it - in_queue.value_or(0ns), 0ns);
            if (when_ == stamped::at_the_end)
                e.before = *took_it;
        }
        for (std::size_t k = 0; k != keys_.size(); ++k)
            e.keys[k] = key(keys_[k], members_[first_key + k]);
        return true;
    }

private:
    enum member : std::uint8_t {
        time,
        client,
        request,
        target,
        method,
        host,
        status,
        took,
        waited,
        first_key
    };

    // `header User-Agent` stands where nginx or Caddy have it.
    static std::vector<std::string> names_of(std::string const& name) {
        constexpr std::string_view header = "header ";
        if (!name.starts_with(header))
            return {name};
        auto const field = name.substr(header.size());
        std::string low = "http_";
        for (char const c : field)
            low += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        return {field, low, "headers." + field, "request.headers." + field,
                "request.headers." + field + "[]"};
    }

    [[nodiscard]] std::string_view key(key_source const& k, wanted const& own) const noexcept {
        switch (k.what) {
            case key_source::kind::client:
                return members_[client].value;
            case key_source::kind::field:
                return own.value;
            case key_source::kind::method:
                return has(method) ? members_[method].value : method_of(members_[request].value);
            case key_source::kind::target:
                return has(target) ? members_[target].value : target_of(members_[request].value);
            case key_source::kind::host:
                break;
        }
        return members_[host].value;
    }
    [[nodiscard]] bool has(member m) const noexcept { return members_[m].which != nowhere; }

    stamped when_;
    nanoseconds unit_;
    std::vector<key_source> keys_;
    std::vector<wanted> members_;
    std::string path_;
    stamp_reader times_;
};

}  // namespace

json_names json_names::parse(std::string_view text) {
    json_names names;
    std::array<std::pair<std::string_view, std::vector<std::string>*>, 8> const all{
        {{"time", &names.time},
         {"client", &names.client},
         {"request", &names.request},
         {"target", &names.target},
         {"method", &names.method},
         {"host", &names.host},
         {"status", &names.status},
         {"took", &names.took}}};
    while (!text.empty()) {
        auto const word = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        if (word.empty())
            continue;
        auto const equals = word.find('=');
        auto const* const known = std::ranges::find(
            all, word.substr(0, equals), [](auto const& pair) { return pair.first; });
        if (equals == word.npos || equals + 1 == word.size() || known == all.end())
            throw std::invalid_argument(fmt::format(
                "`{}` is none of time=, client=, request=, target=, method=, host=, status= and "
                "took= with the name of a member",
                word));
        auto name = word.substr(equals + 1);
        if (known->first == "took") {
            constexpr std::array<std::pair<std::string_view, nanoseconds>, 4> units{
                {{":ms", 1ms}, {":us", 1us}, {":ns", 1ns}, {":s", 1s}}};
            for (auto const& [end, unit] : units)
                if (name.ends_with(end)) {
                    name.remove_suffix(end.size());
                    names.unit = unit;
                    break;
                }
        }
        *known->second = {std::string(name)};
    }
    return names;
}

std::unique_ptr<line_reader> make_json_reader(json_names names, stamped when,
                                              std::vector<key_source> const& keys) {
    return std::make_unique<json_reader>(std::move(names), when, keys);
}

}  // namespace logs
