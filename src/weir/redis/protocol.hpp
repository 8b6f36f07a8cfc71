#pragma once

#include "replies.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::inline v0_2::redis::detail {

/// Appends a command of the Redis protocol, version 2, to `to`. If it throws `std::bad_alloc`, `to` is unchanged.
void append_command(std::string& to, std::vector<std::string_view> const& words);

/// Finds the replies in the bytes of a server: the Redis protocol, version 2.
///
/// The replies that the store needs are texts, numbers, and lists of them. It skips a list inside a list.
/// It rejects a reply of more than 1 MiB, and a list nested more than 8 deep: no server sends them to the store.
class reply_reader {
public:
    static constexpr std::size_t max_size = std::size_t{1} << 20;
    static constexpr int max_depth = 8;

    /// Adds bytes of the server. If it throws `std::bad_alloc`, they are not added.
    void add(std::string_view bytes) {
        bytes_.erase(0, std::exchange(read_, 0));
        bytes_.append(bytes);
    }
    /// Removes and returns the next reply; `nullopt` if it is incomplete, or `is_invalid`. If it throws
    /// `std::bad_alloc`, nothing has changed.
    [[nodiscard]] std::optional<reply> next();
    /// Returns whether the next bytes are not a reply. It remains so.
    [[nodiscard]] bool is_invalid() const noexcept { return is_invalid_; }
    /// Returns whether there are no bytes that are not part of a returned reply.
    [[nodiscard]] bool is_empty() const noexcept { return read_ == bytes_.size(); }

private:
    std::string bytes_;
    std::size_t read_ = 0;  // of these bytes
    bool is_invalid_ = false;
};

}  // namespace weir::inline v0_2::redis::detail
