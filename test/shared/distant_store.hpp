#pragma once

#include <weir/error.hpp>
#include <weir/shared/memory_store.hpp>
#include <weir/shared/store.hpp>
#include <weir/testing.hpp>
#include <weir/time.hpp>

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace support {

/// A store in virtual time that several processes share through one ledger, seen from one of them at some distance.
class distant_store final : public weir::store {
public:
    distant_store(boost::asio::io_context& ctx, std::shared_ptr<weir::detail::bucket_ledger> ledger,
                  weir::duration there_and_back)
        : ctx_(ctx), ledger_(std::move(ledger)), way_(there_and_back / 2) {}

    void async_take(std::string const& name, question const& q, answer_handler handler) override {
        after_a_way([this, name, q, handler = std::move(handler)]() mutable {
            auto const said = ledger_->take(name, q, now());
            after_a_way([said, handler = std::move(handler)]() mutable {
                std::move(handler)(weir::error_code(), said);
            });
        });
    }
    void async_give_back(std::string const& name, give_back const& what) override {
        after_a_way([this, name, what] { ledger_->give_back(name, what, now()); });
    }

private:
    [[nodiscard]] static std::int64_t now() {
        return std::chrono::floor<std::chrono::microseconds>(
                   weir::testing::clock::now().time_since_epoch())
                   .count() +
               1'000'000'000'000;
    }
    template <class F>
    void after_a_way(F f) {
        auto const t = std::make_shared<weir::testing::timer>(ctx_);
        t->expires_after(way_);
        t->async_wait([t, f = std::move(f)](weir::error_code ec) mutable {
            if (!ec)
                f();
        });
    }

    boost::asio::io_context& ctx_;
    std::shared_ptr<weir::detail::bucket_ledger> ledger_;
    weir::duration way_;
};

}  // namespace support
