#pragma once

#include <weir/shared/engine.hpp>

#include "net/asio.hpp"
#include "tool/arguments.hpp"

#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <string>

namespace proxy {

/// What keeps limits that several proxies share.
struct engine {
    std::shared_ptr<weir::engine> keeper;
    /// Makes ready what is needed there, and asks for the limit of that name. Throws what is wrong, if it cannot be asked
    /// now.
    std::function<boost::asio::awaitable<void>(std::string name)> prepare;
};

/// The one at `url`, a `config::is_engine_url`, which messages call `what`. Throws `tool::usage_error` if that is nonsense, or if this program was built
/// without what it needs; what it says does not repeat a password.
[[nodiscard]] engine make_engine(net::executor const& ex, std::string const& what,
                                 std::string const& url);

}  // namespace proxy
