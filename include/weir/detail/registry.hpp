#pragma once

#include <weir/detail/list.hpp>

#include <boost/asio/execution_context.hpp>

#include <memory>
#include <mutex>

namespace weir::inline v0_2::detail {

class context_user;
struct in_registry;

/// Notifies limiters that their execution context is ending, so that waiting operations are destroyed while their
/// executors still exist.
class registry {
public:
    /// The entry of a limiter in the registry of its context.
    class entry : private list_hook<in_registry> {
    public:
        entry(boost::asio::execution_context& context, std::weak_ptr<context_user> user);
        entry(entry const&) = delete;
        entry& operator=(entry const&) = delete;
        ~entry();

    private:
        friend registry;
        friend list<entry, in_registry>;
        // Shared, since the last permit of a limiter may destroy it while the context ends.
        std::shared_ptr<registry> registry_;
        std::weak_ptr<context_user> user_;
    };

    void shutdown() noexcept;

private:
    std::mutex mutex_;
    list<entry, in_registry> entries_;
};

}  // namespace weir::inline v0_2::detail
