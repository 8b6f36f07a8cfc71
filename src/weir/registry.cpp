#include <weir/detail/context_user.hpp>
#include <weir/detail/registry.hpp>

#include <utility>

namespace weir::inline v0_2::detail {
namespace {

class service final : public boost::asio::execution_context::service {
public:
    using key_type = service;
    static inline boost::asio::execution_context::id id;

    explicit service(boost::asio::execution_context& context)
        : boost::asio::execution_context::service(context),
          registry_(std::make_shared<registry>()) {}

    [[nodiscard]] std::shared_ptr<registry> const& entries() const noexcept { return registry_; }

private:
    // Asio calls this twice at the end of a context; the second call does nothing.
    void shutdown() override { registry_->shutdown(); }

    std::shared_ptr<registry> registry_;
};

}  // namespace

registry::entry::entry(boost::asio::execution_context& context, std::weak_ptr<context_user> user)
    : registry_(boost::asio::use_service<service>(context).entries()), user_(std::move(user)) {
    std::lock_guard lock(registry_->mutex_);
    registry_->entries_.push_back(*this);
}

registry::entry::~entry() {
    std::lock_guard lock(registry_->mutex_);
    if (is_linked())
        unlink();
}

void registry::shutdown() noexcept {
    for (;;) {
        std::shared_ptr<context_user> user;
        {
            std::lock_guard lock(mutex_);
            if (entries_.empty())
                return;
            user = entries_.pop_front().user_.lock();
        }
        if (user)
            user->context_ends();
    }
}

}  // namespace weir::inline v0_2::detail
