#pragma once

#include "buffer.hpp"
#include "head.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace http {

/// Extracts a body from its framing, piece by piece and in place. It is strict: input that two readers might interpret
/// differently is bad. It skips trailers and chunk extensions.
class body_reader {
public:
    body_reader(framing how, std::uint64_t length) noexcept;

    struct piece {
        std::size_t body = 0;  // bytes of the body, now at the front
        std::size_t used = 0;  // bytes of the input; further bytes are after the end of the body
    };

    /// Moves the bytes of the body to the front of the `n` bytes at `bytes`.
    [[nodiscard]] piece take(char* bytes, std::size_t n) noexcept;

    /// Reports the end of the input. It ends a body with the framing `until_close`; another unfinished body becomes
    /// bad.
    void end_of_input() noexcept;

    [[nodiscard]] bool done() const noexcept { return state_ == state::done; }
    [[nodiscard]] bool bad() const noexcept { return state_ == state::bad; }

private:
    enum class state : std::uint8_t {
        counted,
        to_the_end,
        size_first,
        size,
        blanks,
        extension,
        size_lf,
        data,
        data_cr,
        data_lf,
        trailer_first,
        trailer,
        trailer_lf,
        last_lf,
        done,
        bad,
    };

    [[nodiscard]] state after(char c) noexcept;
    [[nodiscard]] bool too_much_overhead() noexcept;

    state state_;
    std::uint32_t overhead_ = 0;  // bytes of this chunk's size and extension, or of the trailers
    std::uint64_t left_;
};

/// Adds pieces of a body to the data to send. With the framing `chunked` each piece becomes a chunk.
class body_writer {
public:
    explicit body_writer(framing how) noexcept : chunked_(how == framing::chunked) {}

    /// Adds a piece to `out`; `last` means that the body ends with it. The writer and the bytes must exist until `out`
    /// is sent.
    void put(gather& out, char const* bytes, std::size_t n, bool last) noexcept;

private:
    bool chunked_;
    std::array<char, 20> size_;
};

}  // namespace http
