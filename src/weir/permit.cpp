#include <weir/permit.hpp>

#include "check_option.hpp"

#include <cstdint>
#include <stdexcept>
#include <utility>

namespace weir::inline v0_2 {
namespace {

// A permit of count 0 has no ticket: the policy may have reused it.
constexpr std::uint64_t no_ticket = 0;

}  // namespace

void permit::settle_to(amount n) {
    if (!issuer_)
        return;
    detail::check_option("permit", "the settled amount", n, 0, max_amount);
    if (n < count_)
        issuer_->refund(count_ - n, origin_);
    else if (n > count_)
        origin_.ticket = issuer_->overdraw(n - count_, count_, origin_);
    count_ = n;
    if (count_ == 0)
        origin_.ticket = no_ticket;
}

permit permit::split_off(amount n) {
    if (!issuer_)
        return {};
    detail::check_option("permit", "the part to split off", n, 0, count_);
    issuer_->split(origin_);
    permit part(issuer_, n, origin_, time_);
    if (n == 0)
        part.origin_.ticket = no_ticket;
    count_ -= n;
    if (count_ == 0)
        origin_.ticket = no_ticket;
    return part;
}

void permit::merge(permit&& other) {
    if (!other || this == &other)
        return;
    if (!*this) {
        *this = std::move(other);
        return;
    }
    if (issuer_ != other.issuer_ && !other.issuer_->counts()) {
        other.leave();
        return;
    }
    if (issuer_ != other.issuer_ && !issuer_->counts()) {
        *this = std::move(other);
        return;
    }
    if (issuer_ != other.issuer_)
        throw std::invalid_argument("weir::permit: cannot merge permits of different limiters");
    if (origin_.key != other.origin_.key)
        throw std::invalid_argument(
            "weir::permit: cannot merge permits of different keys or partitions");
    auto const& into = count_ == 0 ? other.origin_ : origin_;
    origin_.ticket = issuer_->merge(into, other.origin_, other.count_);
    count_ += other.count_;
    other.issuer_ = nullptr;
}

}  // namespace weir::inline v0_2
