#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/compiled.hpp>
#include <weir/detail/core_calls.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/tree/path.hpp>
#include <weir/detail/tree/room.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/rate_tree.hpp>
#include <weir/queue_options.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <memory>

namespace weir::inline v0_2::detail {

template <class Timer>
using any_tree_core = core<tree_room, any_host<Timer>>;

}  // namespace weir::inline v0_2::detail

// A tree of rates on `any_io_executor`: see detail/compiled.hpp.

#define WEIR_INSTANTIATE_TREE(storage, Timer)                                                      \
    storage template class weir::detail::core<weir::detail::tree_room,                             \
                                              weir::detail::any_host<Timer>>;                      \
    storage template std::shared_ptr<weir::detail::any_tree_core<Timer>>                           \
    weir::detail::any_tree_core<Timer>::create<boost::asio::any_io_executor const&>(               \
        options_type const&, weir::queue_options const&, boost::asio::any_io_executor const&);     \
    storage template weir::permit                                                                  \
    weir::detail::any_tree_core<Timer>::try_under_lock<weir::detail::tree_lookup>(                 \
        bool, weir::request const&, weir::error_code&, weir::detail::tree_lookup const&) noexcept; \
    storage template weir::permit                                                                  \
    weir::detail::any_tree_core<Timer>::ask_under_lock<weir::detail::tree_lookup>(                 \
        weir::request const&, weir::error_code&, weir::detail::tree_lookup const&) noexcept;       \
    storage template bool weir::detail::any_tree_core<Timer>::enter<weir::detail::tree_lookup>(    \
        weir::detail::operation&, weir::detail::wait_limit const&,                                 \
        weir::detail::tree_lookup const&);                                                         \
    storage template weir::permit                                                                  \
    weir::detail::any_tree_core<Timer>::charge<weir::detail::tree_lookup>(                         \
        weir::amount, weir::detail::tree_lookup const&);                                           \
    storage template class weir::detail::chain_link<                                               \
        weir::detail::any_tree_core<Timer>, boost::asio::any_io_executor, weir::detail::own_path>;
