#pragma once

#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/testing.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <concepts>
#include <memory>
#include <utility>

namespace support {

/// A request that is made with a callback, and its outcome.
///
///     visit guest;
///     kitchen.async_enter(guest.callback());
///     settle(ctx);
///     BOOST_TEST(guest.granted());
class visit {
    struct record {
        int calls = 0;
        weir::error_code error;
        weir::permit seat;
        weir::testing::clock::time_point at;
    };

public:
    /// A completion handler for `async_enter`. It can only be moved.
    class handler {
    public:
        handler(handler&&) = default;
        void operator()(weir::error_code ec, weir::permit seat) {
            ++what_->calls;
            what_->error = ec;
            what_->seat = std::move(seat);
            what_->at = weir::testing::clock::now();
        }

    private:
        friend visit;
        explicit handler(std::shared_ptr<record> what) noexcept : what_(std::move(what)) {}

        std::shared_ptr<record> what_;
    };

    visit() = default;
    visit(visit const&) = delete;
    visit& operator=(visit const&) = delete;
    visit(visit&&) = default;
    visit& operator=(visit&&) = default;

    /// Makes the request; the arguments are before the callback.
    template <class Limiter, class... Args>
        requires(!std::same_as<Limiter, visit>)
    explicit visit(Limiter& limiter, Args... args) {
        limiter.async_enter(args..., callback());
    }

    [[nodiscard]] handler callback() const { return handler(record_); }

    /// The callback exists and was not called.
    [[nodiscard]] bool waiting() const { return record_->calls == 0 && record_.use_count() > 1; }
    /// The callback was destroyed without a call.
    [[nodiscard]] bool dropped() const { return record_->calls == 0 && record_.use_count() == 1; }
    /// The callback was called, once, and was destroyed.
    [[nodiscard]] bool over() const { return record_->calls == 1 && record_.use_count() == 1; }

    [[nodiscard]] bool granted() const { return over() && !record_->error; }
    [[nodiscard]] bool rejected(weir::error_code ec) const {
        return over() && record_->error == ec && !record_->seat;
    }
    [[nodiscard]] bool rejected(weir::errc e) const { return rejected(make_error_code(e)); }

    [[nodiscard]] weir::error_code error() const {
        BOOST_TEST_REQUIRE(over());
        return record_->error;
    }
    /// The granted permit, or the empty permit of a rejection.
    [[nodiscard]] weir::permit& seat() const {
        BOOST_TEST_REQUIRE(over());
        return record_->seat;
    }
    void leave() const { seat().leave(); }
    [[nodiscard]] weir::testing::clock::time_point at() const {
        BOOST_TEST_REQUIRE(over());
        return record_->at;
    }

private:
    std::shared_ptr<record> record_ = std::make_shared<record>();
};

}  // namespace support
