#pragma once

#include <weir/amount.hpp>
#include <weir/detail/any_queue.hpp>
#include <weir/detail/asio_host.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/core_calls.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/room.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/version.hpp>

#include <memory>

// The templates that libweir_limiters contains: what a limiter does under its lock, and its part in a chain, for the
// standard policies on `any_io_executor`. A file that uses them need not compile them. The functions that are defined
// in the class `core`, such as the grant of a free seat, are inline all the same.
//
// The target `weir::weir` of CMake defines `WEIR_COMPILED_LIMITERS`; without it each file compiles what it uses. So does
// a file with ThreadSanitizer, which must see the locks, and a file in which `any_io_executor` is another type.
#if defined(__SANITIZE_THREAD__) || defined(BOOST_ASIO_USE_TS_EXECUTOR_AS_DEFAULT)
#undef WEIR_COMPILED_LIMITERS
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#undef WEIR_COMPILED_LIMITERS
#endif
#endif

namespace weir::inline v0_2::detail {

template <class Timer>
using any_host = asio_host<boost::asio::any_io_executor, Timer>;
template <class Policy>
using any_room = room<one_slot<Policy, any_queue>>;
template <class Policy, class Timer>
using any_core = core<any_room<Policy>, any_host<Timer>>;

/// Exists in the library for the version of Boost that the library was built with.
template <int boost_version>
void built_with_boost() noexcept {}
#ifdef WEIR_COMPILED_LIMITERS
extern template void built_with_boost<BOOST_VERSION>() noexcept;
// Makes the link fail if that is another version: the limiters contain objects of Boost.
[[gnu::used]] inline void (*const the_boost_of_the_library)() noexcept =
    &built_with_boost<BOOST_VERSION>;
#endif

}  // namespace weir::inline v0_2::detail

// The macros declare explicit instantiations if `storage` is `extern`, and define them if it is empty. Use them outside
// of namespaces.

#define WEIR_INSTANTIATE_LIMITER(storage, Policy, Timer)                                           \
    storage template class weir::detail::core<weir::detail::any_room<Policy>,                      \
                                              weir::detail::any_host<Timer>>;                      \
    storage template std::shared_ptr<weir::detail::any_core<Policy, Timer>>                        \
    weir::detail::any_core<Policy, Timer>::create<boost::asio::any_io_executor const&>(            \
        options_type const&, weir::queue_options const&, boost::asio::any_io_executor const&);     \
    storage template weir::permit weir::detail::any_core<Policy, Timer>::try_under_lock<>(         \
        bool, weir::request const&, weir::error_code&) noexcept;                                   \
    storage template weir::permit weir::detail::any_core<Policy, Timer>::ask_under_lock<>(         \
        weir::request const&, weir::error_code&) noexcept;                                         \
    storage template bool weir::detail::any_core<Policy, Timer>::enter<>(                          \
        weir::detail::operation&, weir::detail::wait_limit const&);                                \
    storage template bool weir::detail::any_core<Policy, Timer>::reserve<>(                        \
        weir::detail::operation&, weir::detail::wait_limit const&, weir::time_point&);             \
    storage template weir::permit weir::detail::any_core<Policy, Timer>::charge<>(weir::amount);   \
    storage template class weir::detail::chain_link<weir::detail::any_core<Policy, Timer>,         \
                                                    boost::asio::any_io_executor>;

#ifdef WEIR_COMPILED_LIMITERS
#define WEIR_COMPILED_LIMITER(Policy)                                                              \
    WEIR_INSTANTIATE_LIMITER(extern, Policy, weir::basic_steady_timer<boost::asio::any_io_executor>)
#else
#define WEIR_COMPILED_LIMITER(Policy)
#endif
