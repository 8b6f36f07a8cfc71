#pragma once

#include <exception>

namespace support {

/// A completion token of `co_spawn`: `run()` throws the exception of the coroutine.
struct rethrow_t {
    template <class... Results>
    void operator()(std::exception_ptr failure, Results&&...) const {
        if (failure)
            std::rethrow_exception(failure);
    }
};
inline constexpr rethrow_t rethrow;

}  // namespace support
