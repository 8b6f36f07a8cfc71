#pragma once

#include <weir/amount.hpp>
#include <weir/detail/any_queue.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/compiled.hpp>
#include <weir/detail/core_calls.hpp>
#include <weir/detail/keyed/room.hpp>
#include <weir/detail/keyed/start.hpp>
#include <weir/detail/keyed/states.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/key_hash.hpp>
#include <weir/permit.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <memory>

namespace weir::inline v0_2::detail {

template <class Key, class Rule>
using any_keyed_room = keyed_room<Key, key_hash, Rule, any_queue>;
template <class Key, class Rule, class Timer>
using any_keyed_core = core<any_keyed_room<Key, Rule>, any_host<Timer>>;

}  // namespace weir::inline v0_2::detail

// The limiters by `Key`, and lookups of keys as a `Like`: see detail/compiled.hpp.

#define WEIR_INSTANTIATE_KEYED_LOOKUP(storage, Key, Rule, Timer, Like)                             \
    storage template weir::permit weir::detail::any_keyed_core<Key, Rule, Timer>::try_under_lock<  \
        weir::detail::keyed_lookup<Like>>(bool, weir::request const&, weir::error_code&,           \
                                          weir::detail::keyed_lookup<Like> const&) noexcept;       \
    storage template weir::permit weir::detail::any_keyed_core<Key, Rule, Timer>::ask_under_lock<  \
        weir::detail::keyed_lookup<Like>>(weir::request const&, weir::error_code&,                 \
                                          weir::detail::keyed_lookup<Like> const&) noexcept;       \
    storage template bool                                                                          \
    weir::detail::any_keyed_core<Key, Rule, Timer>::enter<weir::detail::keyed_lookup<Like>>(       \
        weir::detail::operation&, weir::detail::wait_limit const&,                                 \
        weir::detail::keyed_lookup<Like> const&);                                                  \
    storage template bool                                                                          \
    weir::detail::any_keyed_core<Key, Rule, Timer>::reserve<weir::detail::keyed_lookup<Like>>(     \
        weir::detail::operation&, weir::detail::wait_limit const&, weir::time_point&,              \
        weir::detail::keyed_lookup<Like> const&);                                                  \
    storage template weir::permit                                                                  \
    weir::detail::any_keyed_core<Key, Rule, Timer>::charge<weir::detail::keyed_lookup<Like>>(      \
        weir::amount, weir::detail::keyed_lookup<Like> const&);

#define WEIR_INSTANTIATE_KEYED(storage, Key, Rule, Timer)                                          \
    storage template class weir::detail::core<weir::detail::any_keyed_room<Key, Rule>,             \
                                              weir::detail::any_host<Timer>>;                      \
    storage template std::shared_ptr<weir::detail::any_keyed_core<Key, Rule, Timer>>               \
    weir::detail::any_keyed_core<Key, Rule, Timer>::create<boost::asio::any_io_executor const&>(   \
        options_type const&, weir::queue_options const&, boost::asio::any_io_executor const&);     \
    WEIR_INSTANTIATE_KEYED_LOOKUP(storage, Key, Rule, Timer, Key)                                  \
    storage template class weir::detail::chain_link<                                               \
        weir::detail::any_keyed_core<Key, Rule, Timer>, boost::asio::any_io_executor,              \
        weir::detail::one_key<Key>>;
