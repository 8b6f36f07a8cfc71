#pragma once

#include <boost/container/static_vector.hpp>

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace http {

/// The pieces that one system call sends.
using gather = boost::container::static_vector<std::string_view, 6>;

/// Received bytes that are not consumed yet. A header must fit into its capacity.
class buffer {
public:
    static constexpr std::size_t capacity = 32 * 1024;
    using storage = std::array<char, capacity>;

    /// `s` must outlive the buffer. Its content does not matter: storage that is not cleared has no resident pages.
    explicit buffer(storage& s) noexcept : bytes_(s) {}
    buffer(buffer const&) = delete;
    buffer& operator=(buffer const&) = delete;

    [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
    [[nodiscard]] bool full() const noexcept { return size() == capacity; }
    [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
    [[nodiscard]] char* data() noexcept { return bytes_.data() + begin_; }
    [[nodiscard]] std::string_view text() const noexcept {
        return {bytes_.data() + begin_, size()};
    }

    /// All free space after the content. Moves the content only if there is no such space.
    [[nodiscard]] std::span<char> room() noexcept {
        if (empty())
            clear();
        if (end_ == capacity && begin_ > 0) {
            std::memmove(bytes_.data(), data(), size());
            end_ -= begin_;
            begin_ = 0;
        }
        return {bytes_.data() + end_, capacity - end_};
    }

    /// The free space after the content. It moves no content, and keeps the `consume`d bytes.
    [[nodiscard]] std::span<char> tail() noexcept {
        return {bytes_.data() + end_, capacity - end_};
    }
    /// Drops the content, and makes the last `n` consumed bytes free space of `tail`.
    void rewind(std::size_t n = 0) noexcept { end_ = begin_ -= n; }

    void commit(std::size_t n) noexcept { end_ += n; }
    void consume(std::size_t n) noexcept { begin_ += n; }
    void clear() noexcept { begin_ = end_ = 0; }

private:
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    storage& bytes_;
};

/// A buffer with its own storage.
class local_buffer : public buffer {
public:
    local_buffer() noexcept : buffer(own_) {}

private:
    storage own_;
};

}  // namespace http
