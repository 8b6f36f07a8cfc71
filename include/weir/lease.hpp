#pragma once

#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/stock.hpp>
#include <weir/time.hpp>

#include <boost/assert.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

namespace weir {

namespace detail {

/// A place for one `T` of a pool.
template <class T>
class pool_item final : public policy::stock::item {
public:
    void empty() noexcept override { object.reset(); }

    std::optional<T> object;
};

}  // namespace detail

/// An object that was checked out of a pool, and is checked in when the lease is destroyed: none is ever
/// lost, or held by two.
///
/// A lease may be moved to, used in and destroyed on any thread, after its pool was closed, and after the
/// pool and its execution context have gone, as far as the object itself can stand that. Two threads must
/// not use one lease at the same time.
///
/// An empty lease is what a rejection comes with: it holds nothing, but may know why nothing was made.
template <class T>
class [[nodiscard]] lease {
public:
    lease() noexcept = default;
    lease(lease&&) noexcept = default;
    lease& operator=(lease&& other) noexcept {
        lease(std::move(other)).swap(*this);
        return *this;
    }
    ~lease() { checkin(); }

    void swap(lease& other) noexcept {
        permit_.swap(other.permit_);
        std::swap(failure_, other.failure_);
    }

    /// Whether there is an object.
    explicit operator bool() const noexcept { return bool(permit_); }

    /// The object. Precondition: not empty.
    [[nodiscard]] T& operator*() const noexcept {
        BOOST_ASSERT_MSG(permit_, "this lease is empty");
        return *item().object;
    }
    [[nodiscard]] T* operator->() const noexcept { return &**this; }

    /// Gives the object back, for the next one to use; the lease is empty afterwards, and an empty one does
    /// nothing. The destructor does the same.
    ///
    /// If somebody waits, the object is theirs at once, and their completion handler is posted from this
    /// thread. The object is destroyed instead, here, if it is older than `pool_options::max_age`, or if
    /// the pool has been closed or has gone.
    void checkin() noexcept {
        if (!permit_)
            return;
        if (item().needs_care()) [[unlikely]]
            leave(item().come_home());
        else
            permit_.leave();
    }

    /// Destroys the object, here, since it is broken, and has another made in its place if somebody waits
    /// for it or there are fewer than `pool_options::min`. The lease is empty afterwards.
    void discard() noexcept {
        if (permit_)
            leave(item().discard());
    }

    /// How long the checkout has waited; 0 if there was an object at once.
    [[nodiscard]] duration waited() const noexcept { return permit_.waited(); }

    /// What `overdue::id` calls this lease; 0 if the pool has no `max_hold`.
    [[nodiscard]] std::uint64_t id() const noexcept { return permit_ ? item().watched_as() : 0; }

    /// Of a rejection: what the last attempt to make an object has failed with, if it has failed; otherwise
    /// null. Then all objects were in use, or the pool was closed, or making one took too long.
    [[nodiscard]] std::exception_ptr failure() const noexcept {
        return failure_ ? failure_->thrown() : nullptr;
    }

private:
    friend detail::lease_access;

    lease(permit&& p, detail::shared_failure failure) noexcept
        : permit_(std::move(p)), failure_(std::move(failure)) {}

    [[nodiscard]] detail::pool_item<T>& item() const noexcept {
        return static_cast<detail::pool_item<T>&>(policy::stock::item::of(permit_.id()));
    }

    void leave(std::shared_ptr<policy::stock_keeper> const& keeper) noexcept {
        permit_.leave();
        if (keeper)
            keeper->look();
    }

    permit permit_;
    detail::shared_failure failure_;
};

struct detail::lease_access {
    /// The lease of what was granted, or of a rejection.
    template <class T>
    [[nodiscard]] static lease<T> make(permit&& p, shared_failure failure = nullptr) noexcept {
        return lease<T>(std::move(p), std::move(failure));
    }
    template <class T>
    [[nodiscard]] static checkout_rejection rejection(error_code ec, lease<T> const& rejected) {
        return {rejected.failure_, ec};
    }
};

}  // namespace weir
