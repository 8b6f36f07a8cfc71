#include "kinds.hpp"

#include "http/characters.hpp"
#include "http/field_changes.hpp"
#include "http/head.hpp"
#include "http/path.hpp"
#include "tool/text.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

namespace config {
namespace {

using namespace std::chrono_literals;

// A kind that parses a string.
template <class T, class Make>
kind<T> of_text(std::string expected, Make make) {
    return {std::move(expected), [make](toml::node const& node) -> std::optional<T> {
                auto const* const found = node.as_string();
                return found ? make(std::string_view(found->get())) : std::nullopt;
            }};
}

bool has_control(std::string_view text) {
    return std::ranges::any_of(text, [](char c) {
        return static_cast<unsigned char>(c) < ' ' || c == 127;
    });
}

// The text after the prefix; empty if the prefix, or a text after it, is missing.
std::optional<std::string> behind(std::string_view prefix, std::string_view text) {
    if (!text.starts_with(prefix) || text.size() == prefix.size() || has_control(text))
        return std::nullopt;
    return std::string(text.substr(prefix.size()));
}

bool is_last_resort(key_part const& part) {
    return part.what == key_part::kind::shared || part.what == key_part::kind::reject;
}

// Whether each request has this part of a key, or is rejected.
bool is_never_missing(key_part const& part) {
    return part.what == key_part::kind::client || is_last_resort(part);
}

// Parses one value of a request that can be part of a key.
std::optional<key_part> source_of_key(std::string_view text) {
    using kind = key_part::kind;
    for (auto const what :
         {kind::client, kind::client_certificate, kind::sni, kind::shared, kind::reject})
        if (text == to_string(key_part{.what = what}))
            return key_part{.what = what};
    for (auto const what : {kind::header, kind::cookie})
        if (auto name = behind(to_string(key_part{.what = what}), text); name && is_token(*name))
            return key_part{.what = what, .name = std::move(*name)};
    if (auto name = behind("query ", text); name && name->find_first_of(" &=#") == name->npos)
        return key_part{.what = kind::query, .name = std::move(*name)};
    if (auto name = behind("claim ", text); name && name->find(' ') == name->npos)
        return key_part{.what = kind::claim, .name = std::move(*name)};
    if (auto const digits = behind("path ", text)) {
        auto const n = tool::number_of(*digits);
        if (n && *n >= 1 && *n <= 100)
            return key_part{.what = kind::segment, .number = *n};
    }
    return std::nullopt;
}

// Parses a part with its alternatives.
std::optional<key_part> key_part_of(std::string_view text) {
    constexpr std::string_view word = " or ";
    std::vector<key_part> all;
    for (bool more = true; more;) {
        auto const end = text.find(word);
        auto source = source_of_key(text.substr(0, end));
        if (!source)
            return std::nullopt;
        if (std::ranges::find(all, *source) != all.end())
            throw std::invalid_argument(fmt::format("duplicate `{}`", to_string(*source)));
        more = end != text.npos;
        if (more && is_never_missing(*source))
            throw std::invalid_argument(fmt::format("nothing can follow `{}`", to_string(*source)));
        all.push_back(std::move(*source));
        text.remove_prefix(more ? end + word.size() : text.size());
    }
    auto made = std::move(all.front());
    if (is_last_resort(made))
        return std::nullopt;
    made.otherwise.assign(std::move_iterator(all.begin() + 1), std::move_iterator(all.end()));
    return made;
}

}  // namespace

bool is_token(std::string_view text) {
    return http::some(text, http::is_token);
}

kind<bool> flag() {
    return {"true or false", [](toml::node const& node) { return node.value_exact<bool>(); }};
}

kind<std::int64_t> number(std::int64_t least, std::int64_t most) {
    return {fmt::format("a number from {} to {}", least, most),
            [=](toml::node const& node) -> std::optional<std::int64_t> {
                auto const n = node.value_exact<std::int64_t>();
                return n && *n >= least && *n <= most ? n : std::nullopt;
            }};
}

kind<weir::duration> time(weir::duration least, weir::duration most) {
    return of_text<weir::duration>(
        fmt::format("a time from {} to {}, such as 500ms, 10s or 2min", tool::to_text(least),
                    tool::to_text(most)),
        [=](std::string_view text) -> std::optional<weir::duration> {
            auto const found = tool::time_of(text);
            return found && *found >= least && *found <= most ? found : std::nullopt;
        });
}

kind<std::string> text(std::string expected) {
    return of_text<std::string>(std::move(expected), [](std::string_view found) {
        return found.empty() || has_control(found) ? std::nullopt
                                                   : std::optional(std::string(found));
    });
}

kind<std::string> path_of_socket() {
    constexpr std::size_t longest = 107;  // in a sockaddr_un of Linux
    return of_text<std::string>(
        fmt::format("the path of a socket, of at most {} bytes", longest),
        [](std::string_view found) {
            bool const fits = !found.empty() && found.size() <= longest && !has_control(found);
            return fits ? std::optional(std::string(found)) : std::nullopt;
        });
}

kind<unsigned> file_mode() {
    return of_text<unsigned>(
        "four octal digits from 0000 to 0777, such as 0660",
        [](std::string_view found) -> std::optional<unsigned> {
            bool const octal =
                std::ranges::all_of(found, [](char c) { return c >= '0' && c <= '7'; });
            if (found.size() != 4 || found[0] != '0' || !octal)
                return std::nullopt;
            return static_cast<unsigned>(
                (found[1] - '0') * 64 + (found[2] - '0') * 8 + (found[3] - '0'));
        });
}

kind<std::string> target(std::string expected) {
    return of_text<std::string>(std::move(expected), [](std::string_view found) {
        bool const printable =
            std::ranges::all_of(found, [](char c) { return c > ' ' && c < 127; });
        return found.starts_with('/') && printable && !http::is_ambiguous(found)
                   ? std::optional(std::string(found))
                   : std::nullopt;
    });
}

kind<std::string> host_of_route() {
    return of_text<std::string>(
        "a host, such as example.org or *.example.org",
        [](std::string_view found) -> std::optional<std::string> {
            if (found == "*")
                throw std::invalid_argument("leave out `host` to match all hosts");
            auto name = found.starts_with("*.") ? found.substr(2) : found;
            if (!http::some(found, http::is_host))
                return std::nullopt;
            if (name.find('*') != name.npos)
                throw std::invalid_argument(
                    "`*` is allowed only as the first label, as in *.example.org");
            bool const v6 = std::ranges::count(name, ':') > 1;
            if (v6 && !name.starts_with('['))
                throw std::invalid_argument(fmt::format("use `[{}]`", name));
            auto const colon = name.find(':', v6 ? std::min(name.find(']'), name.size()) : 0);
            name = name.substr(0, colon);
            if (name.ends_with('.'))  // the root of the DNS
                name.remove_suffix(1);
            if (name.empty() || name.starts_with('.') || name.ends_with('.') ||
                name.find("..") != name.npos)
                return std::nullopt;
            auto right = fmt::format("{}{}", found.starts_with("*.") ? "*." : "", name);
            if (right != found)
                throw std::invalid_argument(fmt::format("use `{}`", right));
            return right;
        });
}

kind<std::string> path_of_route() {
    return of_text<std::string>(
        "a prefix of paths, such as /api",
        [](std::string_view found) -> std::optional<std::string> {
            if (!found.starts_with('/') || has_control(found))
                return std::nullopt;
            auto prefix = found;
            if (prefix.ends_with("/*"))
                prefix.remove_suffix(prefix.size() > 2 ? 2 : 1);
            if (prefix.find('*') != prefix.npos)
                throw std::invalid_argument("`*` is allowed only as the last segment");
            auto const normal = http::normal_path(prefix);
            bool const slash = prefix.size() > 1 && prefix.ends_with('/');
            if (has_control(normal))
                return std::nullopt;
            if (prefix.substr(0, prefix.size() - slash) != normal)
                throw std::invalid_argument(fmt::format("use `{}`", normal));
            return std::string(prefix);
        });
}

kind<std::string> path_of_upstream() {
    return of_text<std::string>(
        "a path without a slash at its end, such as / or /v2",
        [](std::string_view found) -> std::optional<std::string> {
            bool const printable =
                std::ranges::all_of(found, [](char c) { return c > ' ' && c < 127; });
            bool const is_path = found.starts_with('/') && found.find('?') == found.npos;
            if (!printable || !is_path || http::is_ambiguous(found) ||
                http::percent_decoded(found) != http::normal_path(found))
                return std::nullopt;
            return std::string(found);
        });
}

kind<std::string> method() {
    return of_text<std::string>(
        "a method, such as GET", [](std::string_view found) -> std::optional<std::string> {
            if (!is_token(found))
                return std::nullopt;
            std::string upper(found);
            std::ranges::transform(upper, upper.begin(), http::to_upper);
            if (upper == "CONNECT")
                throw std::invalid_argument(
                    "the proxy does not support CONNECT and answers it with 501; remove it");
            if (upper != found && http::beast::string_to_verb(upper) != http::verb::unknown)
                throw std::invalid_argument(
                    fmt::format("methods are case-sensitive; use `{}`", upper));
            return std::string(found);
        });
}

kind<override_rule> rule() {
    return of_text<override_rule>(
        "a rule, such as `100/1s`, `100/1s burst 20` or `32 seats`, or `unlimited`",
        [](std::string_view found) -> std::optional<override_rule> {
            return found == unlimited ? override_rule() : override_rule(rule_of(found));
        });
}

kind<weir::queue_options> queue() {
    return of_text<weir::queue_options>(
        "a queue, such as `max_waiting 100 patience 2s`", [](std::string_view found) {
            return std::optional(queue_of(found, limit::default_patience));
        });
}

kind<failure_mode> mode_of_failure() {
    return of_text<failure_mode>(
        "`closed`, `open`, or `local` and a share up to 1, such as `local 0.25`", failure_mode_of);
}

kind<listen_address> where_to_listen() {
    return of_text<listen_address>(
        "host:port, such as 127.0.0.1:8080 or [::1]:8080, unix:PATH or systemd:NAME",
        [](std::string_view found) -> std::optional<listen_address> {
            if (auto path = behind("unix:", found))
                return unix_address{std::move(*path)};
            if (auto name = behind("systemd:", found))
                return inherited_sockets{std::move(*name)};
            if (auto tcp = tcp_address_of(found))
                return std::move(*tcp);
            return std::nullopt;
        });
}

kind<server> where_a_server_is() {
    return of_text<server>(
        "host:port, with a port from 1 to 65535, such as 127.0.0.1:9000 or [::1]:9000, "
        "https://HOST:PORT, or unix:PATH",
        server_of);
}

kind<std::optional<server_address>> where_to_administer() {
    using place = std::optional<server_address>;
    return of_text<place>("host:port, such as 127.0.0.1:9090 or [::1]:9090, unix:PATH or `none`",
                          [](std::string_view found) -> std::optional<place> {
                              if (found == "none")
                                  return place();
                              if (auto path = behind("unix:", found))
                                  return place(unix_address{std::move(*path)});
                              if (auto tcp = tcp_address_of(found))
                                  return place(std::move(*tcp));
                              return std::nullopt;
                          });
}

kind<tool::network> network() {
    return of_text<tool::network>("a network, such as 10.0.0.0/8 or fd00::/8, without bits set "
                                  "after the prefix, or an address",
                                  [](std::string_view found) { return tool::network_of(found); });
}

kind<std::optional<key_part>> part_of_key() {
    using part = std::optional<key_part>;
    return of_text<part>(
        "`total`, `client`, `client_certificate`, `sni`, `header NAME`, `cookie NAME`, `query "
        "NAME`, `claim NAME`, or `path N`, a segment of the path from 1 to 100; or several of "
        "these with ` or ` between, of which the last may be `shared` or `reject`",
        [](std::string_view found) -> std::optional<part> {
            if (found == "total")
                return part();
            auto made = key_part_of(found);
            return made ? std::optional<part>(std::move(made)) : std::nullopt;
        });
}

kind<key_part> part_of_hash() {
    return of_text<key_part>(
        "`client`, `client_certificate`, `sni`, `header NAME`, `cookie NAME`, `query NAME`, "
        "`claim NAME`, or `path N`, a segment of the path from 1 to 100; or several of these with "
        "` or ` between",
        [](std::string_view found) -> std::optional<key_part> {
            auto made = key_part_of(found);
            if (made && !made->otherwise.empty() && is_last_resort(made->otherwise.back()))
                return std::nullopt;
            return made;
        });
}

kind<cost> cost_of_request() {
    return {fmt::format("a number from 1 to {}, `header NAME`, `bytes`, `response header NAME` or "
                        "`response bytes`",
                        cost::most),
            [](toml::node const& node) -> std::optional<cost> {
                if (auto const n = node.value_exact<std::int64_t>())
                    return *n >= 1 && *n <= cost::most ? std::optional(cost{.number = *n})
                                                       : std::nullopt;
                auto const* const text = node.as_string();
                if (!text)
                    return std::nullopt;
                for (auto const what : {cost::kind::bytes, cost::kind::response_bytes})
                    if (text->get() == to_string(cost{.what = what}))
                        return cost{.what = what};
                for (auto const what : {cost::kind::header, cost::kind::response_header})
                    if (auto name = behind(to_string(cost{.what = what}), text->get());
                        name && is_token(*name))
                        return cost{.what = what, .name = std::move(*name)};
                return std::nullopt;
            }};
}

kind<status_range> counted_status() {
    return {"a status from 200 to 599, such as 401, or a class of them, such as `4xx`",
            [](toml::node const& node) -> std::optional<status_range> {
                auto const* const text = node.as_string();
                bool const is_class =
                    text && text->get().size() == 3 && text->get().ends_with("xx");
                auto const n = is_class ? tool::number_of(text->get().substr(0, 1) + "00")
                               : text   ? tool::number_of(text->get())
                                        : node.value_exact<std::int64_t>();
                if (!n || *n < 200 || *n > 599 || (text && text->get().size() != 3))
                    return std::nullopt;
                auto const first = static_cast<unsigned>(*n);
                return status_range{first, is_class ? first + 99 : first};
            }};
}

kind<std::string> value_of_field() {
    return of_text<std::string>(
        "text without control characters, and without spaces at its ends",
        [](std::string_view found) {
            return found.empty() || has_control(found) || http::trimmed(found) != found
                       ? std::nullopt
                       : std::optional(std::string(found));
        });
}

kind<std::string> token(std::string expected) {
    return of_text<std::string>(std::move(expected), [](std::string_view found) {
        return is_token(found) ? std::optional(std::string(found)) : std::nullopt;
    });
}

kind<std::string> field_value() {
    return of_text<std::string>("text without control characters", [](std::string_view found) {
        if (has_control(found))
            return std::optional<std::string>();
        static_cast<void>(http::value_of(found));  // checks the variables
        return std::optional(std::string(found));
    });
}

kind<forwarded_by> way_of_forwarding() {
    return of_text<forwarded_by>("`x-forwarded-for` or `forwarded`", forwarded_by_of);
}

kind<described_by> way_of_describing() {
    return of_text<described_by>("`x-forwarded`, `x-original` or `itself`", described_by_of);
}

kind<unknown_name> what_unknown_names_get() {
    return of_text<unknown_name>("`refuse` or `first`", unknown_name_of);
}

kind<full_of_keys> what_further_keys_get() {
    return of_text<full_of_keys>("`share` or `reject`", full_of_keys_of);
}

kind<limit_headers> which_headers() {
    return of_text<limit_headers>("`ietf`, `legacy`, `both` or `none`", limit_headers_of);
}

kind<log_format> way_of_logging() {
    return of_text<log_format>("`text` or `json`", log_format_of);
}

kind<tool::level> level() {
    return of_text<tool::level>("`error`, `warning` or `info`", tool::level_of);
}

kind<std::string> protocol() {
    return of_text<std::string>(
        "a protocol such as websocket, other than HTTP, whose requests would bypass the limits",
        [](std::string_view found) {
            return is_upgrade(found) ? std::optional(std::string(found)) : std::nullopt;
        });
}

kind<seats_of_upgrade> how_long_seats_are_held() {
    return of_text<seats_of_upgrade>("`connection` or `handshake`", seats_of_upgrade_of);
}

kind<std::string> media_type() {
    return of_text<std::string>("a media type, such as text/html", [](std::string_view found) {
        auto const name = found.substr(0, found.find_first_of("; "));
        auto const slash = name.find('/');
        bool const right = slash != name.npos && is_token(name.substr(0, slash)) &&
                           is_token(name.substr(slash + 1)) && !has_control(found);
        return right ? std::optional(std::string(found)) : std::nullopt;
    });
}

}  // namespace config
