#pragma once

#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>

#include <atomic>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace support {

/// The exception of a `faulty_executor`.
struct fault : std::runtime_error {
    fault() : std::runtime_error("a fault of the executor") {}
};

/// When and how faulty executors fail: before they have kept the function, or after. All executors that are made from
/// one share it.
struct faults {
    // calls of `execute` that succeed before one fails; none fails if < 0
    std::atomic<int> skip = -1;
    std::atomic<int> failing = 1;  // the number of failures after that; unlimited if negative
    std::atomic<int> failed = 0;
    std::atomic<bool> dropping = false;  // destroy the function without an exception
    std::atomic<bool> keeping = false;   // throw only after the inner executor has the function

    void fail_next(int how_many = 1, int after = 0) {
        failing = how_many;
        skip = after;
    }
    void mend() { skip = -1; }

    void maybe_throw() {
        if (skip < 0)
            return;
        if (skip > 0) {
            --skip;
            return;
        }
        if (failing > 0 && --failing == 0)
            mend();
        ++failed;
        throw fault();
    }
};

/// An executor around another one. Some of its calls of `execute` fail, by plan.
template <class Inner>
class faulty_executor {
public:
    faulty_executor(Inner inner, faults& plan) noexcept : inner_(std::move(inner)), plan_(&plan) {}

    template <class Property>
        requires boost::asio::can_query_v<Inner const&, Property>
    [[nodiscard]] decltype(auto) query(Property const& p) const {
        return boost::asio::query(inner_, p);
    }

    template <class Property>
        requires boost::asio::can_require_v<Inner const&, Property>
    [[nodiscard]] auto require(Property const& p) const {
        return wrap(boost::asio::require(inner_, p));
    }

    template <class Property>
        requires(!boost::asio::can_require_v<Inner const&, Property> &&
                 boost::asio::can_prefer_v<Inner const&, Property>)
    [[nodiscard]] auto prefer(Property const& p) const {
        return wrap(boost::asio::prefer(inner_, p));
    }

    template <class F>
    void execute(F&& f) const {
        bool const keeping = plan_->keeping;
        if (!keeping)
            plan_->maybe_throw();
        if (plan_->dropping) [[maybe_unused]]
            auto const gone = std::forward<F>(f);
        else
            inner_.execute(std::forward<F>(f));
        if (keeping)
            plan_->maybe_throw();
    }

    friend bool operator==(faulty_executor const& a, faulty_executor const& b) noexcept {
        return a.inner_ == b.inner_ && a.plan_ == b.plan_;
    }

private:
    template <class Other>
    [[nodiscard]] faulty_executor<std::remove_cvref_t<Other>> wrap(Other&& other) const {
        return {std::forward<Other>(other), *plan_};
    }

    Inner inner_;
    faults* plan_;
};

}  // namespace support
