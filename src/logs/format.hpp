#pragma once

#include "entry.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace logs {

/// Reads the lines of a log. Only one thread at a time may use it.
class line_reader {
public:
    line_reader() = default;
    line_reader(line_reader const&) = delete;
    virtual ~line_reader() = default;

    /// Reads a line, without its line end, into `e`. Returns whether the line has the format. The texts of `e` point
    /// into the line or into this reader.
    [[nodiscard]] virtual bool read(std::string_view line, entry& e) = 0;
};

/// Whether the time in a line marks the beginning or the end of the request.
enum class stamped { at_the_beginning, at_the_end };

/// The format of the lines of a log.
class format {
public:
    /// Parses the name of a format: `common`, `combined`, `haproxy`, `weir-proxy`, `json` with fields, as in `json
    /// time=ts client=ip`, or a `log_format` of nginx. Throws `std::invalid_argument` with the reason.
    [[nodiscard]] static format parse(std::string_view text);

    /// Detects the format that more than half of the lines have. Throws `std::invalid_argument` with the reason if
    /// there is none.
    [[nodiscard]] static format of_lines(std::span<std::string const> lines);

    /// The text from which `parse` makes this format.
    [[nodiscard]] std::string const& text() const noexcept { return text_; }

    /// Whether lines can contain the service time of a request.
    [[nodiscard]] bool says_held() const noexcept { return says_held_; }
    void set_when(stamped w) noexcept { when_ = w; }

    /// Creates a reader that extracts `keys` from lines, at most `most_keys`. Throws `std::invalid_argument` if the
    /// format lacks one of them.
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
