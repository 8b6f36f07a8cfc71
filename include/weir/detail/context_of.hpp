#pragma once

#include <boost/asio/execution_context.hpp>

#include <concepts>

namespace weir::inline v0_2::detail {

/// An execution context whose executor can be converted to `Executor`, such as `asio::io_context`.
template <class Context, class Executor>
concept context_of =
    std::convertible_to<Context&, boost::asio::execution_context&> && requires(Context& c) {
        { c.get_executor() } -> std::convertible_to<Executor>;
    };

}  // namespace weir::inline v0_2::detail
