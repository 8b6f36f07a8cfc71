#pragma once

#include <weir/error.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/policy/outage.hpp>
#include <weir/time.hpp>

#include <boost/system/system_error.hpp>

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace weir::inline v0_2::detail::sql {

/// Returns the text of an exception, without the place in the source code from which its error comes.
[[nodiscard]] std::string plain_text(boost::system::system_error const& e);

/// The exception of a question that gets no connection.
struct connection_failure : boost::system::system_error {
    connection_failure(system_error const& e, failure_kind k, duration until_next_attempt)
        : system_error(e), kind(k), again_in(until_next_attempt) {}

    failure_kind kind;
    duration again_in;
};

/// The attempts of a store to connect. After a failed one the store asks its pool for a connection only after a pause.
/// Any thread may use it.
class attempts {
    using clock = std::chrono::steady_clock;

public:
    explicit attempts(backoff_options const& retry) noexcept : backoff_(retry) {}

    /// Sets the function that a failed attempt calls, or none; it is called under the lock.
    void on_failure(std::function<void()> f);

    void succeeded() noexcept;
    void failed(boost::system::system_error const& why, failure_kind kind);

    /// Returns when the next attempt may begin; `clock::time_point::min()` if the last one was successful.
    [[nodiscard]] clock::time_point retry_at() const noexcept;
    /// Returns the exception of a question that began at `begin` and got no connection, if the last attempt failed.
    [[nodiscard]] std::optional<connection_failure> failure(clock::time_point begin) const;

private:
    std::mutex mutable mutex_;
    policy::backoff backoff_;
    std::function<void()> on_failure_;
    std::optional<boost::system::system_error> last_;
    failure_kind kind_ = failure_kind::refused;
    clock::time_point failed_at_{};
};

}  // namespace weir::inline v0_2::detail::sql
