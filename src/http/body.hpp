#pragma once

#include "buffer.hpp"
#include "head.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace http {

/// Takes a body out of its framing, piece by piece and in place. Strict: what two readers might
/// understand differently is bad. Trailers and chunk extensions are read over.
class body_reader {
public:
    body_reader(framing how, std::uint64_t length) noexcept;

    struct piece {
        std::size_t body = 0;  // bytes of the body, now at the front
        std::size_t used = 0;  // bytes of the input; what is behind them is behind the end
    };

    /// Moves what belongs to the body to the front of the `n` bytes at `bytes`.
    [[nodiscard]] piece take(char* bytes, std::size_t n) noexcept;

    /// The input has ended: that is the end of a body without another one, and bad for all others.
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

/// Puts a piece of a body into what is sent, in chunks of its own if the framing is `chunked`.
class body_writer {
public:
    explicit body_writer(framing how) noexcept : chunked_(how == framing::chunked) {}

    /// Must live until `out` has been sent. `last` if the body ends with this piece.
    void put(gather& out, char const* bytes, std::size_t n, bool last) noexcept;

private:
    bool chunked_;
    std::array<char, 20> size_;
};

}  // namespace http
