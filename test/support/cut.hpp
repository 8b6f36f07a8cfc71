#pragma once

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>

#include <cstddef>

/// Every asynchronous test is run again and again, and cut short after its first handler, its second,
/// its third ...: everything is destroyed as it stands, and the sanitizers see what is amiss. Where the
/// handlers of a test need what is destroyed before their context, the test is labelled `whole`.
namespace support {

/// What is thrown out of a test that is cut.
struct cut {};

struct cuts {
    /// Set by tests that can be cut.
    static inline bool wanted = false;
    /// How many handlers are still to be called; none left if 0, any number if negative.
    static inline int left = -1;
};

/// A context whose handlers count.
class cut_context {
public:
    explicit cut_context(boost::asio::io_context& context) noexcept : context_(&context) {}
    operator boost::asio::execution_context&() const noexcept { return *context_; }

    void restart() { context_->restart(); }
    std::size_t poll() {
        std::size_t handlers = 0;
        while (context_->poll_one() != 0) {
            ++handlers;
            if (cuts::left > 0 && --cuts::left == 0)
                throw cut();
        }
        return handlers;
    }

private:
    boost::asio::io_context* context_;
};

}  // namespace support
