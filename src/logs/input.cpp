#include "input.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef WEIR_LOGS_ZLIB
#include <zlib.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

namespace logs {
namespace {

constexpr std::size_t buffer_size = 256 * 1024;
constexpr int milliseconds_of_a_look = 100;  // the interval of checks of `*stop`
static_assert(buffer_size >= 2 * line_source::most_line);

[[noreturn]] void fail(std::string const& name, int error) {
    throw input_error(fmt::format("{}: {}", name, std::generic_category().message(error)));
}

class file_descriptor {
public:
    file_descriptor(std::string const& path, std::string const& name)
        : file_(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        if (file_ < 0)
            fail(name, errno);
    }
    file_descriptor(file_descriptor&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
    ~file_descriptor() {
        if (file_ >= 0)
            ::close(file_);
    }
    [[nodiscard]] int get() const noexcept { return file_; }

private:
    int file_;
};

class plain_bytes final : public byte_source {
public:
    plain_bytes(file_descriptor file, std::string name, std::atomic<bool> const* stop)
        : file_(std::move(file)), name_(std::move(name)), stop_(stop) {}

    std::size_t read(char* room, std::size_t size) override {
        // A read from a pipe may block for any time, so this waits with checks of `*stop`.
        for (pollfd what{file_.get(), POLLIN, 0};
             stop_ && ::poll(&what, 1, milliseconds_of_a_look) <= 0;)
            if (*stop_)
                return 0;
        auto const n = ::read(file_.get(), room, size);
        if (n < 0)
            fail(name_, errno);
        position_ += static_cast<std::uint64_t>(n);
        return static_cast<std::size_t>(n);
    }
    std::uint64_t position() const noexcept override { return position_; }

private:
    file_descriptor file_;
    std::string name_;
    std::atomic<bool> const* stop_;
    std::uint64_t position_ = 0;
};

/// Returns some bytes that were read before, and then the rest. Each read must have room for these bytes.
class bytes_again final : public byte_source {
public:
    bytes_again(std::string first, std::unique_ptr<byte_source> rest)
        : first_(std::move(first)), rest_(std::move(rest)) {}

    std::size_t read(char* room, std::size_t size) override {
        auto const n = std::exchange(first_, {}).copy(room, size);
        return n + rest_->read(room + n, size - n);
    }
    std::uint64_t position() const noexcept override { return rest_->position(); }

private:
    std::string first_;
    std::unique_ptr<byte_source> rest_;
};

#ifdef WEIR_LOGS_ZLIB
/// Decompresses gzip data, also with several members.
class gzip_bytes final : public byte_source {
public:
    gzip_bytes(std::unique_ptr<byte_source> packed, std::string name)
        : packed_(std::move(packed)), name_(std::move(name)), in_(buffer_size) {
        if (inflateInit2(&stream_, 15 + 16) != Z_OK)
            throw std::bad_alloc();
    }
    ~gzip_bytes() override { inflateEnd(&stream_); }

    std::size_t read(char* room, std::size_t size) override {
        stream_.next_out = reinterpret_cast<Bytef*>(room);
        stream_.avail_out = static_cast<uInt>(size);
        while (stream_.avail_out == size) {
            if (stream_.avail_in == 0) {
                auto const n = packed_->read(in_.data(), in_.size());
                if (n == 0 && is_inside_)
                    throw input_error(fmt::format("{}: truncated gzip data", name_));
                if (n == 0)
                    return 0;
                stream_.next_in = reinterpret_cast<Bytef*>(in_.data());
                stream_.avail_in = static_cast<uInt>(n);
            }
            is_inside_ = true;
            auto const result = inflate(&stream_, Z_NO_FLUSH);
            if (result == Z_STREAM_END) {
                is_inside_ = false;
                inflateReset(&stream_);  // another member may follow
            } else if (result != Z_OK && result != Z_BUF_ERROR) {
                throw input_error(fmt::format("{}: corrupt gzip data", name_));
            }
        }
        return size - stream_.avail_out;
    }
    std::uint64_t position() const noexcept override { return packed_->position(); }

private:
    std::unique_ptr<byte_source> packed_;
    std::string name_;
    std::vector<char> in_;
    z_stream stream_{};
    bool is_inside_ = false;
};
#endif

struct packer {
    std::string_view begins;
    std::string_view tool;
};
constexpr std::array<packer, 3> packers{{
    {"\x28\xb5\x2f\xfd", "zstd"},
    {std::string_view("\xfd"
                      "7zXZ\0",
                      6),
     "xz"},
    {"BZh", "bzip2"},
}};

}  // namespace

line_source::line_source(std::string const& path, std::atomic<bool> const* stop)
    : name_(path == "-" ? "standard input" : path), buffer_(buffer_size) {
    file_descriptor file(path, name_);
    struct stat about{};
    if (::fstat(file.get(), &about) != 0)
        fail(name_, errno);
    if (S_ISDIR(about.st_mode))
        throw input_error(fmt::format("{} is a directory", name_));
    if (S_ISREG(about.st_mode))
        size_ = static_cast<std::uint64_t>(about.st_size);

    bytes_ = std::make_unique<plain_bytes>(std::move(file), name_, stop);
    std::string first(6, '\0');
    std::size_t n = 0;
    while (n != first.size()) {
        auto const more = bytes_->read(first.data() + n, first.size() - n);
        if (more == 0)
            break;
        n += more;
    }
    first.resize(n);
    if (n == 0)
        throw input_error(fmt::format("{} is empty", name_));
    bool const is_gzip = first.starts_with("\x1f\x8b");
    for (auto const& [begins, tool] : packers)
        if (first.starts_with(begins))
            throw input_error(
                fmt::format("{} is compressed with {}; use: {} -dc {} | weir-replay -", name_, tool,
                            tool, path));
    bytes_ = std::make_unique<bytes_again>(std::move(first), std::move(bytes_));
    if (is_gzip) {
#ifdef WEIR_LOGS_ZLIB
        bytes_ = std::make_unique<gzip_bytes>(std::move(bytes_), name_);
#else
        throw input_error(fmt::format(
            "{} is compressed with gzip, and this weir-replay was built without zlib; use: gzip "
            "-dc {} | weir-replay -",
            name_, path));
#endif
    }
    if (!fill())
        throw input_error(fmt::format("{} is empty", name_));
    if (std::memchr(buffer_.data(), 0, filled_))
        throw input_error(fmt::format("{} is a binary file", name_));
}

line_source::~line_source() = default;

std::uint64_t line_source::position() const noexcept {
    return bytes_->position();
}

char const* line_source::find_end(char const* begin) const noexcept {
    auto const* const end = buffer_.data() + filled_;
    return static_cast<char const*>(
        std::memchr(begin, '\n', static_cast<std::size_t>(end - begin)));
}

void line_source::give(line& l, char const* begin, char const* end) noexcept {
    if (end != begin && end[-1] == '\r')
        --end;
    l.text = {begin, static_cast<std::size_t>(end - begin)};
    l.number = ++number_;
    l.is_whole = l.text.size() <= most_line;
    if (!l.is_whole)
        l.text = l.text.substr(0, most_line);
}

// Moves the rest to the front and reads more after it; returns false if there is no more, or no room.
bool line_source::fill() {
    std::memmove(buffer_.data(), buffer_.data() + at_, filled_ - at_);
    filled_ -= at_;
    at_ = 0;
    if (ended_ || filled_ == buffer_.size())
        return false;
    auto const n = bytes_->read(buffer_.data() + filled_, buffer_.size() - filled_);
    ended_ = n == 0;
    filled_ += n;
    return n != 0;
}

bool line_source::next_slowly(line& l) {
    while (fill())
        if (auto const* const end = find_end(buffer_.data())) {
            give(l, buffer_.data(), end);
            at_ = static_cast<std::size_t>(end - buffer_.data()) + 1;
            return true;
        }
    if (filled_ == 0)
        return false;
    give(l, buffer_.data(), buffer_.data() + filled_);
    if (ended_) {  // the last line has no line end
        at_ = filled_;
        return true;
    }
    // The line does not fit into the buffer: keeps its beginning and skips the rest.
    auto const kept = l.text.size();
    filled_ = kept;
    char rest[4096];
    for (;;) {
        auto const n = bytes_->read(rest, sizeof rest);
        ended_ = n == 0;
        if (ended_)
            break;
        if (auto const* const end = static_cast<char const*>(std::memchr(rest, '\n', n))) {
            auto const more = static_cast<std::size_t>(rest + n - (end + 1));
            std::memcpy(buffer_.data() + kept, end + 1, more);
            filled_ = kept + more;
            break;
        }
    }
    at_ = kept;
    return true;
}

std::vector<std::string> line_source::first_lines(std::size_t most) {
    std::vector<std::string> lines;
    std::string_view rest(buffer_.data(), filled_);
    while (lines.size() != most && !rest.empty()) {
        auto const end = rest.find('\n');
        if (end == rest.npos && !lines.empty())
            break;
        auto text = rest.substr(0, std::min(end, most_line));
        if (text.ends_with('\r'))
            text.remove_suffix(1);
        if (!text.empty())
            lines.emplace_back(text);
        rest.remove_prefix(std::min(rest.size(), end == rest.npos ? end : end + 1));
    }
    return lines;
}

}  // namespace logs
