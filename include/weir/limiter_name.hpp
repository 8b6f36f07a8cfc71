#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weir::inline v0_2 {

/// A short name of a limiter, as in `queue_options::name`. It is stored in place, so that a rejection can carry it
/// without an allocation, and may be used after the limiter was destroyed.
class limiter_name {
public:
    /// The maximum number of characters.
    static constexpr std::size_t longest = 15;

    /// No name.
    constexpr limiter_name() noexcept = default;
    /// A name from text, such as `"workers"`.
    ///
    /// @throws std::invalid_argument if `text` has more than `longest` characters
    template <std::convertible_to<std::string_view> Text>
    constexpr limiter_name(Text const& text) : limiter_name(std::string_view(text), 0) {}

    /// Returns the characters; valid as long as this object.
    [[nodiscard]] constexpr std::string_view view() const noexcept {
        return {characters_.data(), length_};
    }
    /// Returns whether there is no name.
    [[nodiscard]] constexpr bool empty() const noexcept { return length_ == 0; }

    friend constexpr bool operator==(limiter_name const&, limiter_name const&) = default;

private:
    constexpr limiter_name(std::string_view text, int)
        : length_(static_cast<std::uint8_t>(text.size())) {
        if (text.size() > longest)
            throw std::invalid_argument("weir::limiter_name: the name `" + std::string(text) +
                                        "` has more than 15 characters");
        std::ranges::copy(text, characters_.begin());
    }

    std::array<char, longest> characters_{};
    std::uint8_t length_ = 0;
};

}  // namespace weir::inline v0_2
