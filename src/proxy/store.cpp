#include "store.hpp"

#include "tool/text.hpp"

#ifdef WEIR_PROXY_REDIS
#include <weir/redis/store.hpp>
#endif
#ifdef WEIR_PROXY_MYSQL
#include <weir/mysql/store.hpp>
#endif

#include <boost/system/system_error.hpp>

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace proxy {
namespace {

[[noreturn, maybe_unused]] void lacks(std::string const& what, std::string_view scheme,
                                      std::string_view library) {
    throw tool::usage_error(fmt::format(
        "{} starts with {}, but this weir-proxy was built without {}", what, scheme, library));
}

[[maybe_unused]] store redis_store(net::executor const& ex, std::string const& what,
                                   std::string const& url) {
#ifdef WEIR_PROXY_REDIS
    try {
        auto const made =
            std::make_shared<weir::redis::store>(ex, weir::redis::options{.url = url});
        return {made, [made](std::string name) { return made->check(std::move(name)); }};
    } catch (std::invalid_argument const& wrong) {
        throw tool::usage_error(fmt::format("{} cannot be used: {}", what, wrong.what()));
    }
#else
    (void)ex;
    lacks(what, url.substr(0, url.find(':') + 1), "hiredis");
#endif
}

#ifdef WEIR_PROXY_MYSQL

[[noreturn]] void reject_mysql(std::string const& what) {
    throw tool::usage_error(
        what + " must have the form mysql://user:password@host:3306/database or "
               "mysql://user@/database?socket=/run/mysqld/mysqld.sock, with "
               "optional parameters `tls=required`, `tls=never` and "
               "`authorities=FILE`");
}

std::string plain(std::string const& what, std::string_view text) {
    auto decoded = tool::unescaped(text);
    return decoded ? std::move(*decoded) : (reject_mysql(what), std::string());
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
        reject_mysql(what);
    return weir::mysql::tls::never;
}

weir::mysql::options mysql_options(std::string const& what, std::string_view url) {
    weir::mysql::options o;
    auto [address, more] = parted(url, '?');
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
            reject_mysql(what);
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
        reject_mysql(what);
    if (place.empty())
        return o;
    bool const has_port = place.find(':', place.rfind(']') + 1) != place.npos;
    auto const found = tool::address_of(std::string(place) + (has_port ? "" : ":3306"));
    if (!found)
        reject_mysql(what);
    o.host = found->host;
    o.port = static_cast<std::uint16_t>(*tool::number_of(found->port));
    return o;
}

#endif

store mysql_store(net::executor const& ex, std::string const& what, std::string const& url) {
    constexpr std::string_view scheme = "mysql://";
#ifdef WEIR_PROXY_MYSQL
    auto const options = mysql_options(what, std::string_view(url).substr(scheme.size()));
    try {
        auto const made = std::make_shared<weir::mysql::store>(ex, options);
        return {made, [made](std::string const&) { return made->install(); }};
    } catch (boost::system::system_error const& e) {
        throw tool::usage_error(fmt::format("{}: cannot read the authorities {}: {}", what,
                                            options.authorities, e.code().message()));
    }
#else
    (void)ex;
    (void)url;
    lacks(what, scheme, "Boost.MySQL or OpenSSL");
#endif
}

}  // namespace

store make_store(net::executor const& ex, std::string const& what, std::string const& url) {
    return url.starts_with("mysql://") ? mysql_store(ex, what, url) : redis_store(ex, what, url);
}

}  // namespace proxy
