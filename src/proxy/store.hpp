#pragma once

#include <weir/shared/store.hpp>

#include "config/configuration.hpp"
#include "net/asio.hpp"
#include "tool/arguments.hpp"

#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <string>

namespace proxy {

class limit;

/// A store of limits that several proxies share.
struct store {
    std::shared_ptr<weir::store> keeper;
    /// Prepares the store for the limit of that name: installs its functions or checks that it can serve the limit.
    /// Throws the reason if the store is unavailable now.
    std::function<boost::asio::awaitable<void>(std::string name)> prepare;
    /// Makes a limit that this store counts, as `make_store_limit` does.
    std::function<std::shared_ptr<limit>(net::executor const& ex, config::limit const& c)>
        make_limit;
};

/// Makes the store at `url`, for which `config::is_store_url` holds. Messages call it `what`. Throws
/// `tool::usage_error` if the URL is invalid, or if this program was built without the library that it needs. The
/// message never contains a password.
[[nodiscard]] store make_store(net::executor const& ex, std::string const& what,
                               std::string const& url);

}  // namespace proxy
