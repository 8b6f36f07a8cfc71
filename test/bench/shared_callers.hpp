#pragma once

#include <weir/shared/limiter.hpp>
#include <weir/shared/store.hpp>

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

/// A rate above the demand.
inline weir::shared_options const plenty{.rate = {1'000'000'000, std::chrono::seconds(1)},
                                         .burst = 100'000'000,
                                         .timeout = std::chrono::seconds(10)};

/// Returns `many` names, each for a different limiter.
inline std::vector<std::string> names(int many) {
    std::vector<std::string> all;
    for (int i = 0; i != many; ++i)
        all.push_back("ours" + std::to_string(i));
    return all;
}

/// Callers of limiters with one store: `of_each` callers per limiter make one request after the other until the time is
/// over.
class shared_callers {
public:
    using connect = std::function<std::shared_ptr<weir::store>(boost::asio::io_context&)>;

    /// Makes a limiter for each name.
    shared_callers(connect const& to, std::vector<std::string> const& names, int of_each = 1)
        : store_(to(ctx_)), of_each_(of_each) {
        for (auto const& name : names)
            limiters_.push_back(
                std::make_unique<weir::shared_token_bucket>(ctx_, store_, name, plenty));
    }

    std::int64_t operator()(std::chrono::steady_clock::time_point until) {
        done_ = 0;
        until_ = until;
        for (auto& one : limiters_) {
            for (int i = 0; i != of_each_; ++i)
                enter(*one);
        }
        ctx_.restart();
        ctx_.run();
        return done_;
    }

private:
    void enter(weir::shared_token_bucket& at) {
        at.async_enter([this, &at](weir::error_code ec, weir::permit const&) {
            if (ec)
                throw std::runtime_error(ec.message());
            ++done_;
            if (std::chrono::steady_clock::now() < until_)
                enter(at);
        });
    }

    boost::asio::io_context ctx_{1};
    std::shared_ptr<weir::store> store_;
    std::vector<std::unique_ptr<weir::shared_token_bucket>> limiters_;
    int of_each_;
    std::chrono::steady_clock::time_point until_;
    std::int64_t done_ = 0;
};

}  // namespace bench
