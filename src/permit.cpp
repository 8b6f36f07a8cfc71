#include <weir/permit.hpp>

#include "check_option.hpp"

#include <boost/assert.hpp>

#include <stdexcept>

namespace weir {

void permit::settle(request actual) {
    BOOST_ASSERT(home_);
    auto const n = actual.count();
    detail::check_option("permit", "the settled amount", n, 0, max_amount);
    if (n < count_)
        home_->refund(count_ - n, ticket_);
    else if (n > count_)
        ticket_ = home_->overdraw(n - count_, ticket_);
    count_ = n;
}

permit permit::split(request n) {
    BOOST_ASSERT(home_);
    detail::check_option("permit", "the part to split off", n.count(), 0, count_);
    home_->split();
    count_ -= n.count();
    return {home_, n.count(), ticket_, time_};
}

void permit::merge(permit&& other) {
    if (!other || this == &other)
        return;
    if (!*this) {
        *this = std::move(other);
        return;
    }
    if (home_ != other.home_)
        throw std::invalid_argument("weir::permit: merge of permits from two limiters");
    ticket_ = home_->merge(ticket_, other.ticket_, other.count_);
    count_ += other.count_;
    other.time_ = forever;
    other.home_ = nullptr;
}

}  // namespace weir
