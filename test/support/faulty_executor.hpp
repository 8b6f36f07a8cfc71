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

/// What a `faulty_executor` throws.
struct fault : std::runtime_error {
    fault() : std::runtime_error("a fault of the executor") {}
};

/// When faulty executors fail, and how: before they have kept the function, or after. Shared by all executors that are made of one.
struct faults {
    std::atomic<int> skip = -1;    // calls of `execute` that go well before one fails; none if < 0
    std::atomic<int> failing = 1;  // how many then fail, for ever if negative
    std::atomic<int> failed = 0;
    std::atomic<bool> dropping = false;  // destroy what is to be executed, and say nothing
    std::atomic<bool> keeping = false;   // throw only when the inner executor has the function

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

/// An executor around another one, of whose calls to `execute` some fail, by plan.
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
