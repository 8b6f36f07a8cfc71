#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace proxy {

/// A pool of objects that one thread reuses. It keeps at most `kept` unused objects, and `tidy` frees objects that were
/// not needed recently.
template <class T, std::size_t kept>
class pool {
public:
    class give_back {
    public:
        give_back() = default;  // of an empty handle
        explicit give_back(pool& p) noexcept : pool_(&p) {}
        void operator()(T* one) const noexcept {
            std::unique_ptr<T> owned(one);
            --pool_->in_use_;
            if (pool_->free_.size() == kept)
                pool_->freed_ = true;
            else
                pool_->free_.push_back(
                    std::move(owned));  // does not allocate: the constructor reserved the space
            pool_->given_back_();
        }

    private:
        pool* pool_ = nullptr;
    };
    using handle = std::unique_ptr<T, give_back>;

    /// Calls `given_back` after each return of an object to the pool. It may schedule a call of `tidy`.
    explicit pool(std::function<void()> given_back) : given_back_(std::move(given_back)) {
        free_.reserve(kept);
    }

    /// The number of objects that are in use.
    [[nodiscard]] std::size_t in_use() const noexcept { return in_use_; }
    /// Whether more than `kept` objects are in use.
    [[nodiscard]] bool crowded() const noexcept { return in_use_ > kept; }

    [[nodiscard]] handle take() {
        ++in_use_;
        if (free_.empty())
            return handle(new T, give_back(*this));
        auto one = std::move(free_.back());
        free_.pop_back();
        least_free_ = std::min(least_free_, free_.size());
        return handle(one.release(), give_back(*this));
    }

    /// Frees the objects that stayed unused since the previous call. Returns whether any object was freed since then,
    /// by this call or by a return to the full pool.
    bool tidy() {
        freed_ = freed_ || least_free_ > 0;
        free_.resize(free_.size() - least_free_);
        least_free_ = free_.size();
        return std::exchange(freed_, false);
    }

    /// Whether the pool keeps no unused object.
    [[nodiscard]] bool empty() const noexcept { return free_.empty(); }

private:
    std::vector<std::unique_ptr<T>> free_;
    std::size_t in_use_ = 0;
    std::size_t least_free_ = 0;  // since `tidy`
    bool freed_ = false;
    std::function<void()> given_back_;
};

}  // namespace proxy
