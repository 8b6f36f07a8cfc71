#pragma once

namespace weir::detail {

/// What the end of an execution context ends.
class mortal {
public:
    virtual void shutdown() noexcept = 0;

protected:
    ~mortal() = default;
};

}  // namespace weir::detail
