#pragma once

#include <weir/detail/keyed/start.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/tree/path.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/tree_path.hpp>

#include <memory>

namespace weir::inline v0_2::detail {

/// Begins to wait for permits of a leaf. `Path` is `path_of_caller` or `own_path`.
template <class Path>
class starts_to_enter_leaf {
public:
    using signature = keyed_enter_signature;

    starts_to_enter_leaf(tree_path const& path, request const& n, wait_limit const& limit)
        : path_(path), r_(n), limit_(limit) {}

    template <class Core>
    bool operator()(std::shared_ptr<Core> const& core, operation& op) const {
        op.ask_for(r_);
        return path_.with([&](tree_lookup const& who) { return core->enter(op, limit_, who); });
    }
    template <class Core>
    [[nodiscard]] permit at_once(std::shared_ptr<Core> const& core, error_code& ec) const {
        return path_.with([&](tree_lookup const& who) { return core->enter_at_once(r_, ec, who); });
    }

private:
    Path path_;
    request r_;
    wait_limit limit_;
};

}  // namespace weir::inline v0_2::detail
