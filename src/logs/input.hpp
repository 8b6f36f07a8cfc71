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

/// A log that cannot be read, in one line.
class input_error : public std::runtime_error {
    using runtime_error::runtime_error;
};

/// Bytes of a file, plain or compressed by gzip.
class byte_source {
public:
    byte_source() = default;
    byte_source(byte_source const&) = delete;
    virtual ~byte_source() = default;

    /// Fills some of the room; 0 at the end. Throws `input_error`.
    [[nodiscard]] virtual std::size_t read(char* room, std::size_t size) = 0;
    /// How many bytes of the file have been read.
    [[nodiscard]] virtual std::uint64_t position() const noexcept = 0;
};

/// A line, without its end.
struct line {
    std::string_view text;
    std::uint64_t number = 0;  // from 1
    bool is_whole = true;      // otherwise it was too long, and this is its beginning
};

/// The lines of a file, one after the other.
class line_source {
public:
    /// The longest line that is read as a whole.
    static constexpr std::size_t most_line = 64 * 1024;

    /// `-` is standard input. It ends when `*stop` is set, which a signal may do. Throws `input_error` if it cannot be read, is a directory, is of a kind that is not
    /// read, or is empty.
    explicit line_source(std::string const& path, std::atomic<bool> const* stop = nullptr);
    ~line_source();
    line_source(line_source const&) = delete;

    /// The next line: false if there is none. It is good until the next call. Throws `input_error`.
    [[nodiscard]] bool next(line& l) {
        auto const* const begin = buffer_.data() + at_;
        auto const* const end = find_end(begin);
        if (!end) [[unlikely]]
            return next_slowly(l);
        give(l, begin, end);
        at_ += static_cast<std::size_t>(end - begin) + 1;
        return true;
    }

    /// Some lines from the beginning, before the first is read; fewer if the file is short.
    [[nodiscard]] std::vector<std::string> first_lines(std::size_t most);

    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    /// How many bytes the file has, and how many have been read; 0 if nobody knows.
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
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
    std::size_t filled_ = 0;  // behind the last byte
    std::uint64_t number_ = 0;
    bool ended_ = false;
};

}  // namespace logs
