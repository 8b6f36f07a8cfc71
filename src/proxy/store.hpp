#pragma once

#include <weir/shared/store.hpp>

#include "net/asio.hpp"
#include "tool/arguments.hpp"

#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <string>

namespace proxy {

/// What keeps limits that several proxies share.
struct store {
    std::shared_ptr<weir::store> keeper;
    /// Makes ready what is needed there, and asks for the limit of that name. Throws what is wrong, if it cannot be asked
    /// now.
    std::function<boost::asio::awaitable<void>(std::string name)> prepare;
};

/// The one at `url`, a `config::is_store_url`, which messages call `what`. Throws `tool::usage_error` if that is nonsense, or if this program was built
/// without what it needs; what it says does not repeat a password.
[[nodiscard]] store make_store(net::executor const& ex, std::string const& what,
                               std::string const& url);

}  // namespace proxy
