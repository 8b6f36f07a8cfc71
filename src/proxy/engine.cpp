#include "engine.hpp"

#include "tool/text.hpp"

#ifdef WEIR_PROXY_REDIS
#include <weir/redis/engine.hpp>
#endif
#ifdef WEIR_PROXY_MYSQL
#include <weir/mysql/engine.hpp>
#endif

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace proxy {
namespace {

[[noreturn, maybe_unused]] void lacks(std::string_view scheme, std::string_view library) {
    throw usage_error(fmt::format(
        "--engine begins with {}, but this weir-proxy was built without {}", scheme, library));
}

[[maybe_unused]] engine redis_engine(net::executor const& ex, options const& o) {
#ifdef WEIR_PROXY_REDIS
    try {
        auto const made =
            std::make_shared<weir::redis::engine>(ex, weir::redis::options{.url = o.engine});
        return {made, [made, name = o.name] { return made->check(name); }};
    } catch (std::invalid_argument const& wrong) {
        throw usage_error(fmt::format("--engine cannot be used: {}", wrong.what()));
    }
#else
    (void)ex;
    lacks(o.engine.substr(0, o.engine.find(':') + 1), "hiredis");
#endif
}

#ifdef WEIR_PROXY_MYSQL

[[noreturn]] void reject_mysql() {
    throw usage_error("--engine must be like mysql://user:password@host:3306/database, or "
                      "mysql://user@/database?socket=/run/mysqld/mysqld.sock");
}

std::string plain(std::string_view text) {
    auto decoded = tool::unescaped(text);
    return decoded ? std::move(*decoded) : (reject_mysql(), std::string());
}

// What is before the first `mark`, and what is behind it.
std::pair<std::string_view, std::string_view> parted(std::string_view text, char mark) {
    auto const at = text.find(mark);
    if (at == text.npos)
        return {text, {}};
    return {text.substr(0, at), text.substr(at + 1)};
}

weir::mysql::options mysql_options(std::string_view url) {
    weir::mysql::options o;
    auto const [address, more] = parted(url, '?');
    if (more.starts_with("socket="))
        o.socket = plain(more.substr(7));
    else if (!more.empty())
        reject_mysql();
    auto [place, database] = parted(address, '/');
    if (auto const at = place.rfind('@'); at != place.npos) {
        auto const [user, password] = parted(place.substr(0, at), ':');
        o.user = plain(user);
        o.password = plain(password);
        place.remove_prefix(at + 1);
    }
    o.database = plain(database);
    if (o.user.empty() || o.database.empty() || place.empty() == o.socket.empty())
        reject_mysql();
    if (place.empty())
        return o;
    bool const has_port = place.find(':', place.rfind(']') + 1) != place.npos;
    auto const found = tool::address_of(std::string(place) + (has_port ? "" : ":3306"));
    if (!found)
        reject_mysql();
    o.host = found->host;
    o.port = static_cast<std::uint16_t>(*tool::number_of(found->port));
    return o;
}

#endif

engine mysql_engine(net::executor const& ex, options const& o) {
    constexpr std::string_view scheme = "mysql://";
#ifdef WEIR_PROXY_MYSQL
    auto const made = std::make_shared<weir::mysql::engine>(
        ex, mysql_options(std::string_view(o.engine).substr(scheme.size())));
    return {made, [made] { return made->install(); }};
#else
    (void)ex;
    (void)o;
    lacks(scheme, "Boost.MySQL");
#endif
}

}  // namespace

engine make_engine(net::executor const& ex, options const& o) {
    if (o.engine.starts_with("mysql://"))
        return mysql_engine(ex, o);
    if (o.engine.starts_with("redis://") || o.engine.starts_with("unix:"))
        return redis_engine(ex, o);
    throw usage_error("--engine begins with none of redis://, unix: and mysql://");
}

}  // namespace proxy
