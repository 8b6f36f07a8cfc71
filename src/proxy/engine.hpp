#pragma once

#include <weir/shared/engine.hpp>

#include "net/asio.hpp"
#include "options.hpp"

#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>

namespace proxy {

/// What keeps the rate that all proxies of a name share.
struct engine {
    std::shared_ptr<weir::engine> keeper;
    /// Makes ready what is needed there. Throws what is wrong with it, if it cannot be asked now.
    std::function<boost::asio::awaitable<void>()> prepare;
};

/// The one that `o.engine` names. Throws `usage_error` if that is nonsense, or if this program was built without what it
/// needs; what it says does not repeat a password.
[[nodiscard]] engine make_engine(net::executor const& ex, options const& o);

}  // namespace proxy
