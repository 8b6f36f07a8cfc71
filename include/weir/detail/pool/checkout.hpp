#pragma once

#include <weir/detail/operation.hpp>
#include <weir/detail/pool/supplier.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/lease.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2::detail {

/// An operation that waits for an object.
class checkout_operation : public operation {
public:
    std::weak_ptr<checkout_listener> supplier;

protected:
    checkout_operation() = default;
    ~checkout_operation() = default;
};

/// `void(error_code, lease<T>)`: the completion signature of a checkout. A lease that never reaches its handler is
/// checked in.
template <class T>
struct checkout_signature {
    using operation_type = checkout_operation;
    using result = lease<T>;

    class outcome {
    public:
        explicit outcome(checkout_operation& op) noexcept
            : error_(op.error),
              given_(lease_access::make<T>(std::move(op.granted), failure_of(op))) {}

        template <class Handler>
        void give_to(Handler&& handler) {
            std::forward<Handler>(handler)(error_, std::move(given_));
        }

    private:
        static shared_failure failure_of(checkout_operation const& op) noexcept {
            auto const supplier = op.supplier.lock();
            if (!supplier)
                return nullptr;
            supplier->caller_left();
            return op.error ? supplier->failure() : nullptr;
        }

        error_code error_;
        lease<T> given_;
    };
};

/// Begins to wait for an object; the initiation calls it to start the operation. `Kept` is the supplier, or a pointer to
/// the pool's.
template <class T, class Supplier, class Kept = std::shared_ptr<Supplier>>
class starts_to_checkout {
public:
    using signature = checkout_signature<T>;

    starts_to_checkout(Kept supplier, wait_limit const& limit) noexcept
        : supplier_(std::move(supplier)), limit_(limit) {}

    template <class Core>
    bool operator()(std::shared_ptr<Core> const& core, checkout_operation& op) const {
        op.ask_for(1);
        op.supplier = supplier();
        bool const waits = core->enter(op, limit_);
        if (waits)
            supplier()->caller_waits();
        return waits;
    }
    template <class Core>
    [[nodiscard]] lease<T> at_once(std::shared_ptr<Core> const& core, error_code& ec) const {
        return lease_access::make<T>(core->enter_at_once(1, ec));
    }

private:
    [[nodiscard]] std::shared_ptr<Supplier> const& supplier() const noexcept {
        if constexpr (std::is_pointer_v<Kept>)
            return *supplier_;
        else
            return supplier_;
    }

    Kept supplier_;
    wait_limit limit_;
};

}  // namespace weir::inline v0_2::detail
