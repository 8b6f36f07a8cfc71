#include <weir/detail/chain/line.hpp>
#include <weir/detail/chain/operation.hpp>

namespace weir::inline v0_2::detail {

void chain_groups::insert(chain_entry& e, std::uint64_t group) noexcept {
    e.among = group;
    all_.insert(e);
}

void chain_groups::erase(chain_entry& e) noexcept {
    all_.erase(all_.iterator_to(e));
}

chain_entry* chain_groups::first(std::uint64_t group) const noexcept {
    auto const it = all_.lower_bound(by_group::type(group, 0));
    return it == all_.end() || it->among != group ? nullptr : const_cast<chain_entry*>(&*it);
}

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
