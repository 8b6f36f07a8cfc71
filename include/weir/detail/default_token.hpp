#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>

#include <type_traits>

namespace weir::inline v0_2::detail {

template <class Executor, class Otherwise>
struct default_token {
    using type = boost::asio::default_completion_token_t<Executor>;
};
template <class Executor, class Otherwise>
    requires std::is_void_v<boost::asio::default_completion_token_t<Executor>>
struct default_token<Executor, Otherwise> {
    using type = Otherwise;
};

/// The executor's own default token, or else `Otherwise`.
template <class Executor, class Otherwise = boost::asio::deferred_t>
using default_token_t = typename default_token<Executor, Otherwise>::type;

}  // namespace weir::inline v0_2::detail
