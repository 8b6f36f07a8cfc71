#include "mysql_url.hpp"

#include "tool/arguments.hpp"
#include "tool/text.hpp"

#include <cstdint>
#include <utility>

namespace proxy {
namespace {

constexpr std::string_view scheme = "mysql://";

[[noreturn]] void reject_url(std::string const& what) {
    throw tool::usage_error(
        what + " must have the form mysql://user:password@host:3306/database or "
               "mysql://user@/database?socket=/run/mysqld/mysqld.sock, with "
               "optional parameters `tls=required`, `tls=never` and "
               "`authorities=FILE`");
}

std::string plain(std::string const& what, std::string_view text) {
    auto decoded = tool::unescaped(text);
    return decoded ? std::move(*decoded) : (reject_url(what), std::string());
}

// The text before the first `mark` and the text after it. Without a `mark` the second one is empty.
std::pair<std::string_view, std::string_view> parted(std::string_view text, char mark) {
    auto const at = text.find(mark);
    if (at == text.npos)
        return {text, {}};
    return {text.substr(0, at), text.substr(at + 1)};
}

weir::mysql::tls tls_of(std::string const& what, std::string_view text) {
    if (text == "required")
        return weir::mysql::tls::required;
    if (text != "never")
        reject_url(what);
    return weir::mysql::tls::never;
}

}  // namespace

weir::mysql::options mysql_options(std::string const& what, std::string_view url) {
    weir::mysql::options o;
    auto [address, more] = parted(url.substr(scheme.size()), '?');
    while (!more.empty()) {
        auto const [one, others] = parted(more, '&');
        auto const [name, value] = parted(one, '=');
        if (name == "socket")
            o.socket = plain(what, value);
        else if (name == "tls")
            o.tls = tls_of(what, value);
        else if (name == "authorities")
            o.authorities = plain(what, value);
        else
            reject_url(what);
        more = others;
    }
    auto [place, database] = parted(address, '/');
    if (auto const at = place.rfind('@'); at != place.npos) {
        auto const [user, password] = parted(place.substr(0, at), ':');
        o.user = plain(what, user);
        o.password = plain(what, password);
        place.remove_prefix(at + 1);
    }
    o.database = plain(what, database);
    if (o.user.empty() || o.database.empty() || place.empty() == o.socket.empty())
        reject_url(what);
    if (place.empty())
        return o;
    bool const has_port = place.find(':', place.rfind(']') + 1) != place.npos;
    auto const found = tool::address_of(std::string(place) + (has_port ? "" : ":3306"));
    if (!found)
        reject_url(what);
    o.host = found->host;
    o.port = static_cast<std::uint16_t>(*tool::number_of(found->port));
    return o;
}

}  // namespace proxy
