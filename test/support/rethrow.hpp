#pragma once

#include <exception>

namespace support {

/// As a completion token of `co_spawn`: what the coroutine throws comes out of `run()`.
struct rethrow_t {
    template <class... Results>
    void operator()(std::exception_ptr failure, Results&&...) const {
        if (failure)
            std::rethrow_exception(failure);
    }
};
inline constexpr rethrow_t rethrow;

}  // namespace support
