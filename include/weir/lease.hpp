#pragma once

#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/stock.hpp>
#include <weir/time.hpp>

#include <boost/assert.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

namespace weir::inline v0_2 {

template <class T>
class lease;

namespace detail {

/// The storage of one object of a pool.
template <class T>
class pool_item final : public policy::stock::item {
public:
    void empty() noexcept override { object.reset(); }

    std::optional<T> object;
};

struct lease_access {
    /// Returns the lease of a granted permit or of a rejection.
    template <class T>
    [[nodiscard]] static lease<T> make(permit&& p, shared_failure failure = nullptr) noexcept {
        return lease<T>(std::move(p), std::move(failure));
    }
    template <class T>
    [[nodiscard]] static checkout_rejection rejection(error_code ec, lease<T> const& rejected) {
        return {rejected.failure_, ec, permit_issuer::rejected_of(rejected.permit_)};
    }
};

}  // namespace detail

/// An object on loan from a pool. The destructor returns it, so no object is lost or held by two leases.
///
/// A lease may be moved to, used on and destroyed on any thread, also after its pool was closed, and after the pool and
/// its execution context were destroyed, as far as the object supports that. Two threads must not use one lease at the
/// same time.
///
/// A rejection comes with an empty lease: it holds nothing, but may have the exception of the last attempt to create an
/// object.
template <class T>
class [[nodiscard]] lease {
public:
    /// An empty lease.
    lease() noexcept = default;
    /// Moves the object. The source is empty afterwards.
    lease(lease&&) noexcept = default;
    /// Returns the object of this lease to the pool and moves the object of `other` here.
    lease& operator=(lease&& other) noexcept {
        lease(std::move(other)).swap(*this);
        return *this;
    }
    /// Returns the object to the pool.
    ~lease() { checkin(); }

    /// Exchanges the object with the object of `other`.
    void swap(lease& other) noexcept {
        permit_.swap(other.permit_);
        std::swap(failure_, other.failure_);
    }

    /// Returns whether it holds an object.
    explicit operator bool() const noexcept { return bool(permit_); }

    /// Returns the object.
    ///
    /// @pre not empty
    [[nodiscard]] T& operator*() const noexcept {
        BOOST_ASSERT_MSG(permit_, "this lease is empty");
        return *item().object;
    }
    /// Returns a pointer to the object.
    ///
    /// @pre not empty
    [[nodiscard]] T* operator->() const noexcept { return &**this; }

    /// Returns the object to the pool for the next request; the lease is empty afterwards, and an empty one does
    /// nothing. The destructor does this too.
    ///
    /// If a request waits, it gets the object immediately, and this thread posts its completion handler. This thread
    /// destroys the object instead if it is older than `pool_options::max_age`, if more objects than `pool_options::max`
    /// exist after a change to a lower one, or if the pool was closed or destroyed.
    void checkin() noexcept {
        if (!permit_)
            return;
        policy::stock::item_return coming_back(item());
        permit_.leave();
    }

    /// Destroys a broken object on this thread; the lease is empty afterwards. The pool creates another object if a
    /// request waits for one, or if fewer than `pool_options::min` exist.
    void discard() noexcept {
        if (!permit_)
            return;
        policy::stock::item_return coming_back(item());
        coming_back.discard();
        permit_.leave();
    }

    /// Returns the wait of the checkout; 0 if an object was available immediately.
    [[nodiscard]] duration waited() const noexcept { return permit_.waited(); }

    /// Returns the number of this lease in `overdue::id`; 0 if the pool has no `max_hold`.
    [[nodiscard]] std::uint64_t id() const noexcept { return permit_ ? item().watched_as() : 0; }

    /// Returns, for a rejection, the exception of the last attempt to create an object; null if that attempt did not
    /// fail. Then all objects were in use, or the pool was closed, or the creation took too long.
    [[nodiscard]] std::exception_ptr failure() const noexcept {
        return failure_ ? failure_->thrown() : nullptr;
    }

private:
    friend detail::lease_access;
    friend checkout_rejection rejection_of(error_code ec, lease const& rejected) {
        return detail::lease_access::rejection(ec, rejected);
    }

    lease(permit&& p, detail::shared_failure failure) noexcept
        : permit_(std::move(p)), failure_(std::move(failure)) {}

    [[nodiscard]] detail::pool_item<T>& item() const noexcept {
        return static_cast<detail::pool_item<T>&>(policy::stock::item::of(permit_.id()));
    }

    permit permit_;
    detail::shared_failure failure_;
};

}  // namespace weir::inline v0_2
