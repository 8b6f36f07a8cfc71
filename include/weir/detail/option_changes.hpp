#pragma once

#include <cstdint>

namespace weir::inline v0_2::detail {

/// Changes options by functions of the user, which run outside the lock. If another thread changed the options before
/// the lock is taken again, the change starts again. The class counts the changes.
class option_changes {
public:
    /// `lock()` and `visit()` return objects that hold the lock. Under the first, `read()` returns the options in
    /// force. Without a lock, `prepare` converts them to the argument of `put`, which is called under the second. If
    /// any of them throws, nothing is counted.
    template <class Lock, class Read, class Prepare, class Visit, class Put>
    void make(Lock lock, Read read, Prepare prepare, Visit visit, Put put) {
        for (;;) {
            std::uint64_t seen = 0;
            auto next = prepare([&] {
                auto const here = lock();
                seen = made_;
                return read();
            }());
            auto const here = visit();
            if (seen != made_)
                continue;
            put(next);
            ++made_;
            return;
        }
    }

private:
    std::uint64_t made_ = 0;
};

}  // namespace weir::inline v0_2::detail
