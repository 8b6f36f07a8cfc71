#pragma once

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>

#include <cstddef>

/// Runs every asynchronous test repeatedly, cut short after its first handler, its second, its third ...: everything
/// is destroyed in its present state, and the sanitizers detect errors. If the handlers of a test need objects that
/// are destroyed before their context, the test has the label `whole`.
namespace support {

/// The exception that leaves a test that is cut.
struct cut {};

struct cuts {
    /// Set by tests that can be cut.
    static inline bool wanted = false;
    /// The number of handlers that may still be called; 0 for none, negative for any number.
    static inline int left = -1;
    /// The number of handlers that were called.
    static inline int called = 0;
};

/// A context that counts its handlers.
class cut_context {
public:
    explicit cut_context(boost::asio::io_context& context) noexcept : context_(&context) {}
    operator boost::asio::execution_context&() const noexcept { return *context_; }

    void restart() { context_->restart(); }
    std::size_t poll() {
        std::size_t handlers = 0;
        while (context_->poll_one() != 0) {
            ++handlers;
            ++cuts::called;
            if (cuts::left > 0 && --cuts::left == 0)
                throw cut();
        }
        return handlers;
    }

private:
    boost::asio::io_context* context_;
};

}  // namespace support
