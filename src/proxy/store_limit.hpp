#pragma once

#include <weir/shared/store.hpp>

#include "limit.hpp"

#include <memory>

namespace proxy {

/// Makes a limit that `store` counts for all proxies with that store. `ex` serves waiting requests, as for `make_limit`.
[[nodiscard]] std::shared_ptr<limit> make_store_limit(
    net::executor const& ex, config::limit const& c, std::shared_ptr<weir::store> const& store);

}  // namespace proxy
