#pragma once

#include <weir/detail/operation.hpp>
#include <weir/detail/pool/supplier.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/lease.hpp>

#include <memory>
#include <utility>

namespace weir::detail {

/// An operation that waits for an object.
class checkout_operation : public operation {
public:
    std::weak_ptr<hears_of_checkouts> supplier;

protected:
    checkout_operation() = default;
    ~checkout_operation() = default;
};

/// `void(error_code, lease<T>)`: the completion signature of a checkout. A lease that never reaches its handler is
/// checked in.
template <class T>
struct checkout_signature {
    using operation_type = checkout_operation;

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

/// Begins to wait for an object; the initiation calls it to start the operation.
template <class Supplier>
class starts_to_checkout {
public:
    starts_to_checkout(std::shared_ptr<Supplier> supplier, wait_limit const& limit) noexcept
        : supplier_(std::move(supplier)), limit_(limit) {}

    template <class Core>
    bool operator()(Core& core, checkout_operation& op) const {
        op.ask_for(1);
        op.supplier = supplier_;
        bool const waits = core.enter(op, limit_);
        if (waits)
            supplier_->caller_waits();
        return waits;
    }

private:
    std::shared_ptr<Supplier> supplier_;
    wait_limit limit_;
};

}  // namespace weir::detail
