#include "pattern.hpp"

#include "number.hpp"
#include "request_line.hpp"
#include "stamp.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <utility>

namespace logs {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

enum class meaning : std::uint8_t {
    nothing,
    time,
    client,
    client_and_port,  // the text after the last space
    request,
    target,
    method,
    host,
    status,
    upstream,    // of weir-proxy
    took,        // in seconds, from the first byte of the request to the last byte of the response
    waited,      // the part of `took` in the queue of weir-proxy
    to_request,  // haproxy, in milliseconds: until the request was received,
    in_queue,    // until it had a connection,
    active,      // and the total
    sent,        // bytes of the body of the response
    sent_with_head,
    received,  // the same of the request
    received_with_head,
};
constexpr std::size_t meanings = 19;

constexpr std::array<std::pair<std::string_view, meaning>, 26> known{{
    {"time_local", meaning::time},
    {"time_iso8601", meaning::time},
    {"msec", meaning::time},
    {"time", meaning::time},
    {"remote_addr", meaning::client},
    {"client_and_port", meaning::client_and_port},
    {"request", meaning::request},
    {"request_uri", meaning::target},
    {"uri", meaning::target},
    {"request_method", meaning::method},
    {"host", meaning::host},
    {"http_host", meaning::host},
    {"server_name", meaning::host},
    {"status", meaning::status},
    {"upstream", meaning::upstream},
    {"request_time", meaning::took},
    {"waited", meaning::waited},
    {"to_request", meaning::to_request},
    {"in_queue", meaning::in_queue},
    {"active", meaning::active},
    {"body_bytes_sent", meaning::sent},
    {"bytes", meaning::sent_with_head},
    {"bytes_sent", meaning::sent_with_head},
    {"content_length", meaning::received},
    {"http_content_length", meaning::received},
    {"request_length", meaning::received_with_head},
}};

meaning meaning_of(std::string_view name) {
    for (auto const& [text, what] : known)
        if (text == name)
            return what;
    return meaning::nothing;
}

// The variable of a header field, `http_x_api_key` for `header X-Api-Key`, or of a cookie, `cookie_a` for `cookie a`.
std::string variable_named(std::string name) {
    constexpr std::string_view header = "header ";
    constexpr std::string_view cookie = "cookie ";
    if (name.starts_with(cookie))
        return name.replace(0, cookie.size(), "cookie_");
    if (!name.starts_with(header))
        return name;
    name.replace(0, header.size(), "http_");
    for (char& c : name)
        c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return name;
}

bool is_escaped(char const* begin, char const* at) noexcept {
    bool odd = false;
    for (; at != begin && at[-1] == '\\'; --at)
        odd = !odd;
    return odd;
}

class pattern_reader final : public line_reader {
public:
    pattern_reader(std::string_view pattern, stamped when, std::vector<key_source> const& keys)
        : when_(when), keys_(keys) {
        std::vector<std::string> names;
        auto all = variables_of(pattern);
        before_ = std::move(all.front().behind);
        for (auto& v : all | std::views::drop(1)) {
            names.push_back(v.name);
            parts_.push_back({meaning_of(v.name), {}, std::move(v.behind)});
        }
        if (std::ranges::none_of(parts_, [](part const& p) { return p.what == meaning::time; }))
            throw std::invalid_argument(
                "the format has no time: it needs $time_local, $time_iso8601 or $msec");
        for (std::size_t k = 0; k != keys_.size(); ++k)
            find(k, names);
        is_weir_ = std::ranges::any_of(parts_, [](auto& p) { return p.what == meaning::waited; });
    }

    bool read(std::string_view line, entry& e) override {
        e = {};
        found_ = {};
        is_request_ = true;
        is_connection_ = false;
        is_forwarded_ = true;
        if (!line.starts_with(before_))
            return false;
        char const* at = line.data() + before_.size();
        char const* const end = line.data() + line.size();
        for (std::size_t i = 0; i != parts_.size(); ++i) {
            auto const& p = parts_[i];
            auto const* stop = end_of(p, at, end);
            // Some servers did not escape quotes in the request, so its end is the quote before a status.
            while (stop && p.what == meaning::request && i + 1 != parts_.size() &&
                   parts_[i + 1].what == meaning::status &&
                   !is_status(parts_[i + 1], stop + p.behind.size(), end))
                stop = end_of(p, stop + 1, end);
            if (!stop || !take(p, {at, static_cast<std::size_t>(stop - at)}, e))
                return false;
            at = stop + p.behind.size();
        }
        conclude(e);
        return true;
    }

private:
    struct part {
        meaning what = meaning::nothing;
        std::vector<std::size_t> keys;  // indexes of the keys in this part
        std::string behind;             // the text after the part; empty at the end of the line
    };

    void find(std::size_t k, std::vector<std::string> const& names) {
        auto const& key = keys_[k];
        auto const hold = [&](auto wanted) {
            bool any = false;
            for (std::size_t i = 0; i != parts_.size() && !any; ++i)
                if (wanted(i)) {
                    parts_[i].keys.push_back(k);
                    any = true;
                }
            return any;
        };
        bool found = false;
        switch (key.what) {
            case key_source::kind::client:
                found = hold([&](std::size_t i) {
                    return parts_[i].what == meaning::client ||
                           parts_[i].what == meaning::client_and_port;
                });
                break;
            case key_source::kind::method:
                found = hold([&](std::size_t i) {
                    return parts_[i].what == meaning::request || parts_[i].what == meaning::method;
                });
                break;
            case key_source::kind::target:
                found = hold([&](std::size_t i) {
                    return parts_[i].what == meaning::request || parts_[i].what == meaning::target;
                });
                break;
            case key_source::kind::host:
                found = hold([&](std::size_t i) { return parts_[i].what == meaning::host; });
                break;
            case key_source::kind::field: {
                auto const name = variable_named(key.name);
                found = hold([&](std::size_t i) { return names[i] == name; });
                if (!found && !key.may_be_missing) {
                    auto const all = fmt::format("{}", fmt::join(names, " "));
                    throw std::invalid_argument(
                        fmt::format("the format has no field `{}`; its fields are: {}", name, all));
                }
            }
        }
        // Without a client, all requests count as one client.
        if (!found && !key.may_be_missing && key.what != key_source::kind::client)
            throw std::invalid_argument("the format has no request, so no path");
    }

    [[nodiscard]] static char const* end_of(part const& p, char const* at,
                                            char const* end) noexcept {
        auto const& mark = p.behind;
        auto const* const begin = at;
        if (mark.empty())
            return end;
        for (; end - at >= static_cast<std::ptrdiff_t>(mark.size()); ++at) {
            at = static_cast<char const*>(
                std::memchr(at, mark[0], static_cast<std::size_t>(end - at)));
            if (!at || end - at < static_cast<std::ptrdiff_t>(mark.size()))
                return nullptr;
            if (std::memcmp(at, mark.data(), mark.size()) == 0 &&
                (mark[0] != '"' || !is_escaped(begin, at)))
                return at;
        }
        return nullptr;
    }

    [[nodiscard]] static bool is_status(part const& p, char const* at, char const* end) noexcept {
        auto const* const stop = end_of(p, at, end);
        return stop && status_of({at, static_cast<std::size_t>(stop - at)});
    }

    bool take(part const& p, std::string_view text, entry& e) {
        for (auto const k : p.keys)
            e.keys[k] = part_of(keys_[k], p.what, text);
        switch (p.what) {
            case meaning::nothing:
                return true;
            case meaning::time: {
                auto const s = times_(text);
                if (s) {
                    e.at = s->at;
                    e.whole_second = s->whole_second;
                }
                return s.has_value();
            }
            case meaning::client:
            case meaning::client_and_port:
                return !text.empty();
            case meaning::request:
                is_request_ = is_request_line(text);
                is_connection_ = is_weir_ && is_connection_line(text);
                return true;
            case meaning::upstream:
                is_forwarded_ = text != "-";
                return true;
            case meaning::target:
            case meaning::method:
            case meaning::host:
                return true;
            case meaning::status: {
                auto const s = status_of(text);
                e.status = s.value_or(0);
                return s.has_value();
            }
            case meaning::took:
            case meaning::waited:
                // nginx writes `-` for no value, and several values for several attempts.
                found_[std::size_t(p.what)] = time_in(1s, text);
                return true;
            case meaning::to_request:
            case meaning::in_queue:
            case meaning::active:
                found_[std::size_t(p.what)] =
                    time_in(1ms, text.starts_with('+') ? text.substr(1) : text);
                return true;
            case meaning::sent:
                e.sent = size_of(text);
                return true;
            case meaning::sent_with_head:
                e.sent = e.sent ? e.sent : size_of(text);
                return true;
            case meaning::received:
                e.received = size_of(text);
                return true;
            case meaning::received_with_head:
                e.received = e.received ? e.received : size_of(text);
                return true;
        }
        return false;
    }

    [[nodiscard]] static std::string_view part_of(key_source const& key, meaning what,
                                                  std::string_view text) noexcept {
        switch (key.what) {
            case key_source::kind::field:
                return text;
            case key_source::kind::client:
                if (what == meaning::client_and_port) {
                    text.remove_prefix(text.rfind(' ') + 1);
                    text = text.substr(0, text.rfind(':'));
                }
                return text;
            case key_source::kind::method:
                return what == meaning::request ? method_of(text) : text;
            case key_source::kind::target:
                return what == meaning::request ? target_of(text) : text;
            case key_source::kind::host:
                break;
        }
        return text;
    }

    [[nodiscard]] std::optional<nanoseconds> found(meaning what) const noexcept {
        return found_[std::size_t(what)];
    }

    // Computes the arrival and the service time of the request.
    void conclude(entry& e) const noexcept {
        e.is_connection = is_connection_;
        e.is_invalid =
            is_of_invalid_request(e.status) && (!is_request_ || (is_weir_ && !is_forwarded_));
        if (auto const in_all = found(meaning::active)) {
            // A request arrives at the limiter when it is complete, and leaves the queue when it has a connection.
            auto const came = found(meaning::to_request).value_or(0ns);
            auto const waited = found(meaning::in_queue).value_or(0ns);
            e.before = -came;
            e.held = std::max(*in_all - came - waited, 0ns);
        } else if (auto const took = found(meaning::took)) {
            if (when_ == stamped::at_the_end)
                e.before = *took;
            // A request that weir-proxy rejected has no service time.
            bool const was_rejected = is_weir_ && (e.status == 429 || e.status == 503);
            if (!was_rejected)
                e.held = std::max(*took - found(meaning::waited).value_or(0ns), 0ns);
        }
    }

    stamped when_;
    std::vector<key_source> keys_;
    std::string before_;  // the start of each line
    std::vector<part> parts_;
    bool is_weir_ = false;
    bool is_request_ = true;      // the text of the request is valid, or there is none
    bool is_connection_ = false;  // see `entry`
    bool is_forwarded_ = true;    // to an upstream
    stamp_reader times_;
    std::array<std::optional<nanoseconds>, meanings> found_;
};

}  // namespace

std::vector<variable> variables_of(std::string_view pattern) {
    auto const is_name = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    std::vector<variable> found(1);
    while (!pattern.empty()) {
        if (pattern.front() != '$') {
            found.back().behind += pattern.front();
            pattern.remove_prefix(1);
            continue;
        }
        pattern.remove_prefix(1);
        bool const braces = pattern.starts_with('{');
        if (braces)
            pattern.remove_prefix(1);
        auto const length =
            static_cast<std::size_t>(std::ranges::find_if_not(pattern, is_name) - pattern.begin());
        if (length == 0 || (braces && (length == pattern.size() || pattern[length] != '}')))
            throw std::invalid_argument("`$` without a variable name");
        if (found.size() > 1 && found.back().behind.empty())
            throw std::invalid_argument(fmt::format(
                "no separator between ${} and ${}", found.back().name, pattern.substr(0, length)));
        found.push_back({std::string(pattern.substr(0, length)), {}});
        pattern.remove_prefix(length + (braces ? 1 : 0));
    }
    return found;
}

std::string plain_pattern(std::string_view text) {
    if (!text.starts_with("log_format"))
        return std::string(text);
    std::string plain;
    while (true) {
        auto const quote = text.find_first_of("'\"");
        if (quote == text.npos)
            return plain;
        auto const end = text.find(text[quote], quote + 1);
        if (end == text.npos)
            throw std::invalid_argument("unclosed quote in the log_format");
        plain += text.substr(quote + 1, end - quote - 1);
        text.remove_prefix(end + 1);
    }
}

std::unique_ptr<line_reader> make_pattern_reader(std::string_view pattern, stamped when,
                                                 std::vector<key_source> const& keys) {
    return std::make_unique<pattern_reader>(pattern, when, keys);
}

}  // namespace logs
