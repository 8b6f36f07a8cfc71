#pragma once

#include "entry.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace logs {

/// Reads one line after the other. Not for several threads at once.
class line_reader {
public:
    line_reader() = default;
    line_reader(line_reader const&) = delete;
    virtual ~line_reader() = default;

    /// Whether the line, without its end, is of the format: then what it says is in `e`, whose texts point into the
    /// line or into this reader.
    [[nodiscard]] virtual bool read(std::string_view line, entry& e) = 0;
};

/// When a line was stamped.
enum class stamped { at_the_beginning, at_the_end };

/// How the lines of a log are written.
class format {
public:
    /// `common`, `combined`, `haproxy`, `weir-proxy`, `json` with fields, as in `json time=ts client=ip`, or a
    /// `log_format` of nginx. Throws `std::invalid_argument` that says what is wrong.
    [[nodiscard]] static format parse(std::string_view text);

    /// The format of which most lines are, if most are of one. Throws `std::invalid_argument` that says why not.
    [[nodiscard]] static format of_lines(std::span<std::string const> lines);

    /// What `parse` has been given, or could be.
    [[nodiscard]] std::string const& text() const noexcept { return text_; }

    /// Whether lines say how long a request was served.
    [[nodiscard]] bool says_held() const noexcept { return says_held_; }
    void set_when(stamped w) noexcept { when_ = w; }

    /// What reads lines and finds `keys` in them, at most `most_keys`. Throws `std::invalid_argument` if the format
    /// does not have one of them.
    [[nodiscard]] std::unique_ptr<line_reader> make_reader(
        std::vector<key_source> const& keys) const;

private:
    enum class family { pattern, json };

    std::string text_;
    std::string pattern_;
    family family_ = family::pattern;
    bool says_held_ = false;
    stamped when_ = stamped::at_the_beginning;
};

}  // namespace logs
