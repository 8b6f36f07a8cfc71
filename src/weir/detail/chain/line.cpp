#include <weir/detail/chain/line.hpp>
#include <weir/detail/chain/operation.hpp>

namespace weir::inline v0_2::detail {

void chain_line::enter_queue(chain_entry& e) noexcept {
    queued_.insert(e);
    asked_ += e.count;
    e.in_queue = true;
}

void chain_line::leave_queue(chain_entry& e) noexcept {
    queued_.erase(queued_.iterator_to(e));
    asked_ -= e.count;
    e.in_queue = false;
}

void chain_line::add_overdue(chain_entry& e) noexcept {
    overdue_.insert(e);
}
void chain_line::remove_overdue(chain_entry& e) noexcept {
    overdue_.erase(overdue_.iterator_to(e));
}

}  // namespace weir::inline v0_2::detail
