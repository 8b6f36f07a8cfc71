#pragma once

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
#include <type_traits>

namespace weir {

using boost::system::error_code;

/// Why a request was not granted. Cancellation is not here: it is `asio::error::operation_aborted`.
enum class errc {
    /// `try_enter` found no room, or a request that waits.
    no_permit = 1,
    /// The patience ran out before the turn of the request came.
    timed_out,
    /// It was clear at once, or became clear when options changed, that the turn would come after the
    /// patience had run out.
    deadline_unreachable,
    /// As many requests wait already as `queue_options::max_waiting` allows.
    queue_full,
    /// Dropped from the queue to make room for a new request.
    shed,
    /// More was asked for than the limiter can ever grant.
    exceeds_capacity,
    /// The limiter was closed or destroyed.
    closed,
    /// The limiter keeps as many keys as it may, and none of them can be forgotten; or there is no memory
    /// for one more.
    too_many_keys,
    /// The store that the limiter is fed by, such as a server, cannot be asked.
    unavailable,
    /// What was granted has been taken away meanwhile: the lease of a shared seat has ended.
    lost,
};

/// The category of `errc`. Each code also equals a generic condition: `timed_out` and
/// `deadline_unreachable` equal `errc::timed_out` of Boost.System and the standard, and so on.
[[nodiscard]] boost::system::error_category const& error_category() noexcept;

[[nodiscard]] error_code make_error_code(errc e) noexcept;

/// What the awaitable forms throw when a request is not granted, `operation_aborted` included.
class rejection : public boost::system::system_error {
public:
    rejection(error_code ec, std::optional<duration> retry_after);

    /// How long to stay away before it is worth asking again; absent if no time can be named.
    [[nodiscard]] std::optional<duration> retry_after() const noexcept { return retry_after_; }

private:
    std::optional<duration> retry_after_;
};

/// What `chain::enter` throws: a rejection that knows which limiter has rejected.
class chain_rejection : public rejection {
public:
    chain_rejection(error_code ec, std::optional<duration> retry_after,
                    std::optional<std::size_t> rejected_by)
        : rejection(ec, retry_after), rejected_by_(rejected_by) {}

    /// The index of the limiter, in the order in which the chain names them.
    [[nodiscard]] std::optional<std::size_t> rejected_by() const noexcept { return rejected_by_; }

private:
    std::optional<std::size_t> rejected_by_;
};

namespace detail {

/// What an attempt has failed with, for each of the threads that are told of it. It is counted here, and not
/// by `std::exception_ptr` alone, since a thread sanitizer does not see how the standard library counts.
class failure : public boost::intrusive_ref_counter<failure> {
public:
    /// Throws `std::bad_alloc`.
    explicit failure(std::exception_ptr thrown);

    [[nodiscard]] std::exception_ptr const& thrown() const noexcept { return thrown_; }
    /// What the exception says of itself.
    [[nodiscard]] std::string const& text() const noexcept { return text_; }

private:
    std::exception_ptr thrown_;
    std::string text_;
};

/// Null if there is none.
using shared_failure = boost::intrusive_ptr<failure const>;

struct lease_access;

}  // namespace detail

/// What `pool::checkout` throws: a rejection that knows why no object was made.
class checkout_rejection : public rejection {
public:
    checkout_rejection(error_code ec, std::exception_ptr failure);

    /// What the last attempt to make an object has failed with, if it has failed; otherwise null.
    [[nodiscard]] std::exception_ptr failure() const noexcept {
        return failure_ ? failure_->thrown() : nullptr;
    }

    /// With the text of the failure.
    [[nodiscard]] char const* what() const noexcept override { return what_->c_str(); }

private:
    friend detail::lease_access;
    checkout_rejection(detail::shared_failure failure, error_code ec);

    detail::shared_failure failure_;
    std::shared_ptr<std::string const> what_;
};

}  // namespace weir

template <>
struct boost::system::is_error_code_enum<weir::errc> : std::true_type {};
