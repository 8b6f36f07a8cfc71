#include <weir/policy/ticket_table.hpp>

#include <algorithm>
#include <limits>
#include <new>

namespace weir::inline v0_2::policy {

ticket ticket_table::add(amount n) noexcept {
    if (free_ == 0) {
        auto const rows = rows_.size();
        if (rows == std::numeric_limits<std::uint32_t>::max() - 1)
            return lost;
        try {
            tickets_.resize((rows + 1) * parts_);
            rows_.emplace_back();
        } catch (std::bad_alloc const&) {
            return lost;
        }
        free_ = static_cast<std::uint32_t>(rows + 1);
    }
    auto const r = free_ - 1U;
    free_ = rows_[r].next;
    rows_[r].count = n;
    ++used_;
    std::fill_n(tickets_.begin() + static_cast<std::ptrdiff_t>(r * parts_), parts_, ticket{0});
    return named(r);
}

void ticket_table::drop(ticket t, amount n) noexcept {
    if (!is_row(t))
        return;
    auto& e = rows_[row(t)];
    e.count -= n;
    if (e.count != 0)
        return;
    --used_;
    e.turn = (e.turn + 1) % std::numeric_limits<std::uint32_t>::max();  // it must not become `lost`
    e.next = free_;
    free_ = static_cast<std::uint32_t>(row(t) + 1);
}

ticket ticket_table::find(ticket own, std::size_t part) const noexcept {
    for (std::size_t r = 0; r != rows_.size(); ++r) {
        if (rows_[r].count != 0 && tickets_[r * parts_ + part] == own)
            return named(r);
    }
    return 0;
}

}  // namespace weir::inline v0_2::policy
