#pragma once

#include <weir/time.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace weir::inline v0_2 {

/// Appends the numbers of a state to a text.
///
/// A number is written in groups of 7 bits, the lowest first; all bytes but the last have their highest bit set. An
/// instant is written as its age, since the clocks of limiters are unrelated in different processes.
class number_writer {
public:
    /// An unsigned number that holds each number of a state.
    __extension__ using wide = unsigned __int128;

    /// Appends to `to`, which must exist as long as this object.
    explicit number_writer(std::string& to) noexcept : to_(to) {}

    /// Appends a number that is not negative. Throws `std::bad_alloc`.
    void add(wide n) {
        for (; n >= 0x80; n >>= 7)
            to_.push_back(static_cast<char>(static_cast<unsigned char>(n & 0x7f) | 0x80U));
        to_.push_back(static_cast<char>(static_cast<unsigned char>(n)));
    }
    /// Appends the age of `t`, which is 0 if `t` is after `now`.
    void add_age(time_point t, time_point now) {
        auto const age = static_cast<std::uint64_t>(now.time_since_epoch().count()) -
                         static_cast<std::uint64_t>(t.time_since_epoch().count());
        add(t < now ? age : 0);
    }
    /// Appends the number of `bytes`, and the bytes.
    void add_bytes(std::string_view bytes) {
        add(bytes.size());
        to_.append(bytes);
    }

private:
    std::string& to_;
};

/// Reads the numbers of a state. It fails if a number is missing, too large or not written in its shortest form, and
/// then all numbers are 0.
class number_reader {
public:
    /// An unsigned number that holds each number of a state.
    using wide = number_writer::wide;

    /// Reads `from`, which must exist as long as this object.
    explicit number_reader(std::string_view from) noexcept : rest_(from) {}

    /// Returns the next number, at most `most`.
    [[nodiscard]] wide next(wide most) noexcept {
        wide n = 0;
        for (unsigned shift = 0; shift < 128 && !rest_.empty(); shift += 7) {
            auto const byte = static_cast<unsigned char>(rest_.front());
            rest_.remove_prefix(1);
            wide const bits = byte & 0x7f;
            n |= bits << shift;
            if ((byte & 0x80) != 0)
                continue;
            bool const is_shortest = byte != 0 || shift == 0;
            if (!is_shortest || n >> shift != bits || n > most)
                break;
            return n;
        }
        fail();
        return 0;
    }
    /// Returns the next number, at most `most` and at most the largest `T`.
    template <class T>
    [[nodiscard]] T next_as(T most = std::numeric_limits<T>::max()) noexcept {
        return static_cast<T>(next(static_cast<wide>(most)));
    }
    /// Returns the instant that had the next number as its age at `then`, or the first instant if it was earlier.
    [[nodiscard]] time_point next_instant(time_point then) noexcept {
        auto const age = next_as<std::uint64_t>();
        auto const most = static_cast<std::uint64_t>(then.time_since_epoch().count()) -
                          static_cast<std::uint64_t>(time_point::min().time_since_epoch().count());
        if (age >= most)
            return time_point::min();
        return time_point(duration(static_cast<duration::rep>(
            static_cast<std::uint64_t>(then.time_since_epoch().count()) - age)));
    }
    /// Returns the bytes that `add_bytes` appended.
    [[nodiscard]] std::string_view next_bytes() noexcept {
        auto const n = next_as<std::size_t>();
        if (n > rest_.size()) {
            fail();
            return {};
        }
        auto const bytes = rest_.substr(0, n);
        rest_.remove_prefix(n);
        return bytes;
    }
    /// Returns the bytes that follow.
    [[nodiscard]] std::string_view rest() const noexcept { return rest_; }

    /// Makes the reader fail.
    void fail() noexcept {
        failed_ = true;
        rest_ = {};
    }
    /// Returns whether a number was missing or wrong.
    [[nodiscard]] bool failed() const noexcept { return failed_; }
    /// Returns whether all bytes were read without a failure.
    [[nodiscard]] bool is_done() const noexcept { return !failed_ && rest_.empty(); }

private:
    std::string_view rest_;
    bool failed_ = false;
};

}  // namespace weir::inline v0_2
