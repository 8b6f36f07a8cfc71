#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>

#include <functional>
#include <utility>

namespace support {

namespace asio = boost::asio;

/// An executor that first calls a function when it is asked to execute.
class distracted_executor {
public:
    distracted_executor(asio::any_io_executor inner, std::function<void()>& distraction)
        : inner_(std::move(inner)), distraction_(&distraction) {}
    [[nodiscard]] asio::execution_context& query(asio::execution::context_t p) const {
        return asio::query(inner_, p);
    }
    [[nodiscard]] distracted_executor require(asio::execution::blocking_t::never_t) const {
        return *this;
    }
    [[nodiscard]] static constexpr asio::execution::blocking_t query(
        asio::execution::blocking_t) noexcept {
        return asio::execution::blocking.never;
    }
    template <class F>
    void execute(F&& f) const {
        if (*distraction_)
            std::exchange(*distraction_, nullptr)();
        asio::post(inner_, std::forward<F>(f));
    }
    [[nodiscard]] bool operator==(distracted_executor const& that) const noexcept {
        return inner_ == that.inner_;
    }

private:
    asio::any_io_executor inner_;
    std::function<void()>* distraction_;
};

}  // namespace support
