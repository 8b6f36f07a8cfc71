#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace logs {

/// A log that cannot be read. The message has one line.
class input_error : public std::runtime_error {
    using runtime_error::runtime_error;
};

/// The bytes of a file, plain or compressed by gzip.
class byte_source {
public:
    byte_source() = default;
    byte_source(byte_source const&) = delete;
    virtual ~byte_source() = default;

    /// Reads at least one byte and at most `size` bytes; returns their number, or 0 at the end. Throws `input_error`.
    [[nodiscard]] virtual std::size_t read(char* room, std::size_t size) = 0;
    /// The number of bytes read from the file.
    [[nodiscard]] virtual std::uint64_t position() const noexcept = 0;
};

/// A line without its line end.
struct line {
    std::string_view text;
    std::uint64_t number = 0;  // from 1
    bool is_whole = true;      // false: the line was too long, and `text` is its beginning
};

/// Reads the lines of a file.
class line_source {
public:
    /// The length of the longest line that is not cut.
    static constexpr std::size_t most_line = 64 * 1024;

    /// Opens a file; `-` is standard input. The input ends when `*stop` becomes true, for example by a signal. Throws
    /// `input_error` if the file cannot be read, is a directory, has an unsupported type or is empty.
    explicit line_source(std::string const& path, std::atomic<bool> const* stop = nullptr);
    ~line_source();
    line_source(line_source const&) = delete;

    /// Reads the next line, which is valid until the next call; returns false at the end. Throws `input_error`.
    [[nodiscard]] bool next(line& l) {
        auto const* const begin = buffer_.data() + at_;
        auto const* const end = find_end(begin);
        if (!end) [[unlikely]]
            return next_slowly(l);
        give(l, begin, end);
        at_ += static_cast<std::size_t>(end - begin) + 1;
        return true;
    }

    /// The first lines of the file, at most `most`; fewer if the file is short. Call it before the first `next`.
    [[nodiscard]] std::vector<std::string> first_lines(std::size_t most);

    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    /// The size of the file in bytes; 0 if it is unknown.
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    /// The number of bytes read from the file.
    [[nodiscard]] std::uint64_t position() const noexcept;

private:
    [[nodiscard]] char const* find_end(char const* begin) const noexcept;
    void give(line& l, char const* begin, char const* end) noexcept;
    [[nodiscard]] bool next_slowly(line& l);
    [[nodiscard]] bool fill();

    std::string name_;
    std::unique_ptr<byte_source> bytes_;
    std::uint64_t size_ = 0;
    std::vector<char> buffer_;
    std::size_t at_ = 0;      // the next line
    std::size_t filled_ = 0;  // the end of the bytes
    std::uint64_t number_ = 0;
    bool ended_ = false;
};

}  // namespace logs
