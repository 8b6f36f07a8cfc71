#include "store.hpp"

#ifdef WEIR_PROXY_REDIS
#include <weir/redis/store.hpp>
#endif
#ifdef WEIR_PROXY_MYSQL
#include <weir/mysql/store.hpp>

#include "mysql_url.hpp"
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
    lacks(what, url.substr(0, url.find(':') + 1), "OpenSSL");
#endif
}

#ifdef WEIR_PROXY_MYSQL
boost::asio::awaitable<void> install_and_check(std::shared_ptr<weir::mysql::store> at,
                                               std::string name) {
    co_await at->install();
    co_await at->check(std::move(name));
}
#endif

store mysql_store(net::executor const& ex, std::string const& what, std::string const& url) {
#ifdef WEIR_PROXY_MYSQL
    auto const options = mysql_options(what, url);
    try {
        auto const made = std::make_shared<weir::mysql::store>(ex, options);
        return {made,
                [made](std::string name) { return install_and_check(made, std::move(name)); }};
    } catch (boost::system::system_error const& e) {
        throw tool::usage_error(fmt::format("{}: cannot read the authorities {}: {}", what,
                                            options.authorities, e.code().message()));
    }
#else
    (void)ex;
    (void)url;
    lacks(what, "mysql://", "Boost.MySQL or OpenSSL");
#endif
}

}  // namespace

store make_store(net::executor const& ex, std::string const& what, std::string const& url) {
    return url.starts_with("mysql://") ? mysql_store(ex, what, url) : redis_store(ex, what, url);
}

}  // namespace proxy
