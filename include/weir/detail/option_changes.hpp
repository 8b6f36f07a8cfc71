#pragma once

#include <cstdint>

namespace weir::detail {

/// Changes of options by functions of their user, which run outside the lock: what was read may have been changed
/// by another thread when the lock is taken again, and then all is done again. It counts the changes.
class option_changes {
public:
    /// `look()` and `visit()` take the lock until what they return is destroyed. Under the first, `read()` tells
    /// the options in force; `prepare` makes of them, without a lock, what `put` is given under the second.
    /// If any throws, nothing is counted.
    template <class Look, class Read, class Prepare, class Visit, class Put>
    void make(Look look, Read read, Prepare prepare, Visit visit, Put put) {
        for (;;) {
            std::uint64_t seen = 0;
            auto next = prepare([&] {
                auto const here = look();
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

}  // namespace weir::detail
