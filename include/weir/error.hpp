#pragma once

#include <weir/detail/rejected.hpp>
#include <weir/limiter_name.hpp>
#include <weir/time.hpp>

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>
#include <boost/system/error_category.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace weir::inline v0_2 {

/// The error code of Boost.System, which Asio uses, too.
using boost::system::error_code;

/// The reason for which a request was not granted. A cancellation is `asio::error::operation_aborted` instead.
enum class errc {
    /// `try_enter` found too few free permits, or a waiting request.
    no_permit = 1,
    /// The patience ended during the wait, or it is 0 and the request could not be granted immediately. With a patience
    /// of 0 and a known grant time the error is `deadline_unreachable`.
    timed_out,
    /// The grant time would be after the end of the patience. The limiter found this when the request arrived, when its
    /// options changed, or when `charge` or `settle` took permits; a chain finds it also at later events.
    deadline_unreachable,
    /// The queue is full by `queue_options::max_waiting` or `max_waiting_permits`, or the expected wait exceeds
    /// `max_expected_wait`.
    queue_full,
    /// The limiter dropped the waiting request under overload: for a new request by `when_full::evict_oldest`, or by
    /// `queue_order::codel`.
    shed,
    /// The request is for more permits than the limiter can ever grant.
    exceeds_capacity,
    /// The limiter was closed or destroyed.
    closed,
    /// The limiter keeps its maximum number of keys and cannot forget any of them, or memory for another key is
    /// exhausted.
    too_many_keys,
    /// The store that counts a shared limit, such as a server, is unavailable.
    unavailable,
    /// The lease of a shared seat ended before the seat was released.
    lost,
    /// The server of a shared limit rejects its questions until an option of the store or of the server changes, such as
    /// a password: `last_failure()` of the limiter has the message of the server.
    misconfigured,
};

/// Returns the category of `errc`. Each code also equals a generic condition: for example, `timed_out` and
/// `deadline_unreachable` equal `errc::timed_out` of Boost.System and of the standard library.
[[nodiscard]] boost::system::error_category const& error_category() noexcept;

/// Returns the `error_code` of `e`.
[[nodiscard]] error_code make_error_code(errc e) noexcept;

/// The exception of the awaitable functions when a request is not granted, with the `error_code`. It also reports a
/// cancellation, as `operation_aborted`.
class rejection : public boost::system::system_error {
public:
    /// Creates a rejection with an error and the time until a retry is useful.
    rejection(error_code ec, std::optional<duration> retry_after);
    /// Creates a rejection from all that its limiter reports.
    rejection(detail::rejected const& what, error_code ec) : rejection(what, ec, {}) {}

    /// Returns the time until a retry is useful; absent if it is unknown.
    [[nodiscard]] std::optional<duration> retry_after() const noexcept {
        return if_known(rejected_.retry_after);
    }

    /// Returns the name of the limiter, `queue_options::name`; empty if it has none.
    [[nodiscard]] std::string_view limiter() const noexcept { return rejected_.by.view(); }

    /// Returns a text with the name of the limiter, if it has one, and the reason: `weir: workers: the request exceeds the
    /// capacity of the limiter: 3 permits requested, but the capacity is 2 [weir:6]`.
    [[nodiscard]] char const* what() const noexcept override { return what_->c_str(); }

    /// Returns the part of `what()` that is for people: without the library, the number of the error, and `failure`.
    [[nodiscard]] std::string reason() const;

protected:
    /// Appends `cause` to `what()`.
    rejection(detail::rejected const& what, error_code ec, std::string const& cause);

private:
    detail::rejected rejected_;
    std::shared_ptr<std::string const> what_;
};

/// The exception of `chain::enter`: a rejection that names the limiter that rejected.
class chain_rejection : public rejection {
public:
    /// Creates a rejection by a limiter of a chain.
    chain_rejection(error_code ec, std::optional<duration> retry_after,
                    std::optional<std::size_t> rejected_by)
        : rejection(ec, retry_after), rejected_by_(rejected_by) {}
    /// Creates a rejection by a limiter of a chain from all that this limiter reports.
    chain_rejection(detail::rejected const& what, error_code ec,
                    std::optional<std::size_t> rejected_by)
        : rejection(what, ec), rejected_by_(rejected_by) {}

    /// Returns the index of the limiter that rejected, in the order of the chain; absent if no limiter did, as for a
    /// cancellation.
    [[nodiscard]] std::optional<std::size_t> rejected_by() const noexcept { return rejected_by_; }

private:
    std::optional<std::size_t> rejected_by_;
};

namespace detail {

/// The exception of a failed attempt, shared by all threads that receive it. It has its own reference count, because a
/// thread sanitizer does not see the count of `std::exception_ptr`.
class failure : public boost::intrusive_ref_counter<failure> {
public:
    /// Throws `std::bad_alloc`.
    explicit failure(std::exception_ptr thrown);

    [[nodiscard]] std::exception_ptr const& thrown() const noexcept { return thrown_; }
    /// Returns the message of the exception.
    [[nodiscard]] std::string const& text() const noexcept { return text_; }

private:
    std::exception_ptr thrown_;
    std::string text_;
};

/// Null if no attempt failed.
using shared_failure = boost::intrusive_ptr<failure const>;

struct lease_access;

}  // namespace detail

/// The exception of `pool::checkout`: a rejection with the reason for which no object could be created. `what()` has the
/// message of both.
class checkout_rejection : public rejection {
public:
    /// Creates a rejection with the exception of the last attempt to create an object, or null.
    checkout_rejection(error_code ec, std::exception_ptr failure);

    /// Returns the exception of the last attempt to create an object, or null if that attempt did not fail.
    [[nodiscard]] std::exception_ptr failure() const noexcept {
        return failure_ ? failure_->thrown() : nullptr;
    }

private:
    friend detail::lease_access;
    checkout_rejection(detail::shared_failure failure, error_code ec, detail::rejected const& what);

    detail::shared_failure failure_;
};

}  // namespace weir::inline v0_2

template <>
struct boost::system::is_error_code_enum<weir::errc> : std::true_type {};
