#include "attempts.hpp"

#include <algorithm>
#include <utility>

namespace weir::inline v0_2::detail::sql {
namespace {

time_point time_of(std::chrono::steady_clock::time_point t) {
    return time_point(std::chrono::duration_cast<duration>(t.time_since_epoch()));
}

}  // namespace

std::string plain_text(boost::system::system_error const& e) {
    std::string text = e.what();
    if (!e.code().has_location())
        return text;
    auto const place = " at " + e.code().location().to_string();
    auto const begin = text.find(place);
    return begin == text.npos ? text : text.erase(begin, place.size());
}

void attempts::on_failure(std::function<void()> f) {
    std::lock_guard lock(mutex_);
    on_failure_ = std::move(f);
}

void attempts::succeeded() noexcept {
    std::lock_guard lock(mutex_);
    backoff_.succeeded();
    last_.reset();
}

void attempts::failed(boost::system::system_error const& why, failure_kind kind) {
    std::lock_guard lock(mutex_);
    failed_at_ = clock::now();
    backoff_.failed(backoff_.failures(), time_of(failed_at_));
    last_ = why;
    kind_ = kind;
    if (on_failure_)
        on_failure_();
}

attempts::clock::time_point attempts::retry_at() const noexcept {
    std::lock_guard lock(mutex_);
    return last_ ? clock::time_point(backoff_.retry_at().time_since_epoch())
                 : clock::time_point::min();
}

std::optional<connection_failure> attempts::failure(clock::time_point begin) const {
    std::lock_guard lock(mutex_);
    if (!last_)
        return std::nullopt;
    auto const now = time_of(clock::now());
    auto const pause = std::max(backoff_.retry_at(), now) - now;
    bool const is_remembered = failed_at_ < begin && kind_ != failure_kind::misconfigured;
    return connection_failure(*last_, is_remembered ? failure_kind::unsent : kind_, pause);
}

}  // namespace weir::inline v0_2::detail::sql
