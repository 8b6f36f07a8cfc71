#include "store.hpp"

#include <weir/agent/store.hpp>
#ifdef WEIR_PROXY_REDIS
#include <weir/redis/store.hpp>
#endif
#ifdef WEIR_PROXY_MYSQL
#include <weir/mysql/store.hpp>

#include "mysql_url.hpp"
#endif
#ifdef WEIR_PROXY_POSTGRES
#include <weir/postgres/store.hpp>
#endif

#include "store_limit.hpp"

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

store usable(std::shared_ptr<weir::store> const& keeper,
             std::function<boost::asio::awaitable<void>(std::string name)> prepare) {
    return {keeper, std::move(prepare), [keeper](net::executor const& ex, config::limit const& c) {
                return make_store_limit(ex, c, keeper);
            }};
}

// Makes a store of its options, or of its path.
template <class Store, class Where>
std::shared_ptr<Store> store_at(net::executor const& ex, std::string const& what,
                                Where const& where) {
    try {
        return std::make_shared<Store>(ex, where);
    } catch (std::invalid_argument const& wrong) {
        throw tool::usage_error(fmt::format("{} cannot be used: {}", what, wrong.what()));
    }
}

[[maybe_unused]] store redis_store(net::executor const& ex, std::string const& what,
                                   std::string const& url) {
#ifdef WEIR_PROXY_REDIS
    auto const made = store_at<weir::redis::store>(ex, what, weir::redis::options{.url = url});
    return usable(made, [made](std::string name) { return made->check(std::move(name)); });
#else
    (void)ex;
    lacks(what, url.substr(0, url.find(':') + 1), "OpenSSL");
#endif
}

// Prepares a store on tables.
template <class Store>
boost::asio::awaitable<void> install_and_check(std::shared_ptr<Store> at, std::string name) {
    co_await at->install();
    co_await at->check(std::move(name));
}

store mysql_store(net::executor const& ex, std::string const& what, std::string const& url) {
#ifdef WEIR_PROXY_MYSQL
    auto const options = mysql_options(what, url);
    try {
        auto const made = std::make_shared<weir::mysql::store>(ex, options);
        return usable(made, [made](std::string name) {
            return install_and_check(made, std::move(name));
        });
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

store postgres_store(net::executor const& ex, std::string const& what, std::string const& url) {
#ifdef WEIR_PROXY_POSTGRES
    auto const made =
        store_at<weir::postgres::store>(ex, what, weir::postgres::options{.url = url});
    return usable(made,
                  [made](std::string name) { return install_and_check(made, std::move(name)); });
#else
    (void)ex;
    (void)url;
    lacks(what, "postgresql://", "libpq");
#endif
}

boost::asio::awaitable<void> connect(std::shared_ptr<weir::agent::store> at) {
    at->check();
    co_return;
}

store agent_store(net::executor const& ex, std::string const& what, std::string_view path) {
    auto const made = store_at<weir::agent::store>(ex, what, std::string(path));
    return usable(made, [made](std::string const&) { return connect(made); });
}

}  // namespace

store make_store(net::executor const& ex, std::string const& what, std::string const& url) {
    if (auto const path = config::path_of_agent(url))
        return agent_store(ex, what, *path);
    if (url.starts_with("mysql://"))
        return mysql_store(ex, what, url);
    return url.starts_with("postgresql://") ? postgres_store(ex, what, url)
                                            : redis_store(ex, what, url);
}

}  // namespace proxy
