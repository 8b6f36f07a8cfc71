#include "format.hpp"

#include "json.hpp"
#include "pattern.hpp"
#include "stamp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace logs {
namespace {

struct named {
    std::string_view name;
    std::string_view pattern;
};

// Formats with more variables are tried first.
constexpr std::array<named, 4> patterns{{
    {"weir-proxy",
     R"($time $remote_addr "$request" $status $body_bytes_sent $request_time $waited )"
     R"($upstream "$limit" $request_id)"},
    {"combined", R"($remote_addr $remote_ident $remote_user [$time_local] "$request" $status )"
                 R"($body_bytes_sent "$http_referer" "$http_user_agent"$more)"},
    {"common", R"($remote_addr $remote_ident $remote_user [$time_local] "$request" $status )"
               R"($body_bytes_sent)"},
    {"haproxy", R"($client_and_port [$time] $frontend $backend )"
                R"($to_request/$in_queue/$connect/$response/$active $status $bytes )"
                R"($request_cookie $response_cookie $state $connections $queues )"
                R"($captures"$request")"},
}};

constexpr std::string_view json_word = "json";

bool has(std::vector<variable> const& all, std::string_view name) {
    return std::ranges::any_of(all, [&](variable const& v) { return v.name == name; });
}

}  // namespace

format format::parse(std::string_view text) {
    format f;
    f.text_ = text;
    if (text.starts_with(json_word) &&
        (text.size() == json_word.size() || text[json_word.size()] == ' ')) {
        f.family_ = family::json;
        f.pattern_ = text.substr(json_word.size());
        static_cast<void>(json_names::parse(f.pattern_));
        f.says_held_ = true;  // if the lines have that member
        f.when_ = stamped::at_the_end;
        return f;
    }
    auto const* const known = std::ranges::find(patterns, text, &named::name);
    if (known == patterns.end() && text.find('$') == text.npos)
        throw std::invalid_argument(fmt::format("unknown format `{}`: use common, combined, "
                                                "haproxy, weir-proxy, json or an nginx log_format",
                                                text));
    f.pattern_ = known != patterns.end() ? std::string(known->pattern) : plain_pattern(text);
    auto const all = variables_of(f.pattern_);
    f.says_held_ = has(all, "request_time") || has(all, "active");
    bool const at_the_beginning =
        f.text_ == "common" || f.text_ == "combined" || f.text_ == "haproxy";
    f.when_ = at_the_beginning ? stamped::at_the_beginning : stamped::at_the_end;
    static_cast<void>(f.make_reader({}));
    return f;
}

format format::of_lines(std::span<std::string const> lines) {
    std::size_t most = 0;
    format best;
    for (std::string_view const name :
         {patterns[0].name, patterns[1].name, patterns[2].name, patterns[3].name, json_word}) {
        auto f = parse(name);
        auto const reader = f.make_reader({});
        entry e;
        auto const n = static_cast<std::size_t>(std::ranges::count_if(
            lines, [&](std::string const& line) { return reader->read(line, e); }));
        if (n > most) {
            most = n;
            best = std::move(f);
        }
    }
    if (2 * most > lines.size())
        return best;
    if (std::ranges::any_of(lines, [](std::string const& line) { return lacks_year(line); }))
        throw std::invalid_argument(
            "its times have no year (syslog); log full times and set --format");
    throw std::invalid_argument(
        "cannot detect the log format: it is not common, combined, haproxy, weir-proxy or json; "
        "set --format");
}

std::unique_ptr<line_reader> format::make_reader(std::vector<key_source> const& keys) const {
    if (keys.size() > most_keys)
        throw std::invalid_argument(fmt::format("more than {} keys", most_keys));
    if (family_ == family::json)
        return make_json_reader(json_names::parse(pattern_), when_, keys);
    return make_pattern_reader(pattern_, when_, keys);
}

}  // namespace logs
