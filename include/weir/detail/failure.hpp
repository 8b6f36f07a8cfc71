#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include <exception>
#include <string>

namespace weir::detail {

/// What an attempt has failed with, for each of the threads that are told of it. It is counted here, and not
/// by `std::exception_ptr` alone, since a thread sanitizer does not see how the standard library counts.
class failure : public boost::intrusive_ref_counter<failure> {
public:
    /// Throws `std::bad_alloc`.
    explicit failure(std::exception_ptr thrown);

    [[nodiscard]] std::exception_ptr const& thrown() const noexcept { return thrown_; }
    /// What the exception says of itself.
    [[nodiscard]] std::string const& text() const noexcept { return text_; }

private:
    std::exception_ptr thrown_;
    std::string text_;
};

/// Null if there is none.
using shared_failure = boost::intrusive_ptr<failure const>;

}  // namespace weir::detail
