#pragma once

#include <weir/detail/chain/operation.hpp>

#include <boost/assert.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <new>

namespace weir::inline v0_2::detail {

/// Up to `most` entries of a chain, without an allocation. Only the needed entries are constructed.
template <std::size_t most>
class entry_list {
public:
    explicit entry_list(std::size_t n) noexcept : size_(n) {
        BOOST_ASSERT(n <= most);
        std::uninitialized_default_construct_n(data(), n);
    }
    entry_list(entry_list const&) = delete;
    entry_list& operator=(entry_list const&) = delete;
    ~entry_list() { std::destroy_n(data(), size_); }

    [[nodiscard]] chain_entry* data() noexcept {
        return std::launder(reinterpret_cast<chain_entry*>(memory_.data()));
    }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] chain_entry* begin() noexcept { return data(); }
    [[nodiscard]] chain_entry* end() noexcept { return data() + size_; }

private:
    alignas(chain_entry) std::array<std::byte, most * sizeof(chain_entry)> memory_;
    std::size_t size_;
};

}  // namespace weir::inline v0_2::detail
