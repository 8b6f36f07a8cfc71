#include "log_file.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>
#include <utility>

namespace tool {
namespace {

constexpr std::size_t most_pending = 1024 * 1024;  // bytes
// Waking the writer for each line would cost more than all other work for the line.
constexpr std::size_t enough_to_write = 64 * 1024;
constexpr std::chrono::milliseconds time_to_gather{10};
constexpr std::chrono::seconds patience_at_the_end{1};
constexpr int patience_of_a_look = 100;  // milliseconds

int open_file(std::string const& path) {
    if (path == "-")
        return STDOUT_FILENO;
    // O_NONBLOCK: opening a pipe without a reader fails instead of blocking.
    int const file =
        ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
    if (file < 0)
        throw std::system_error(errno, std::generic_category(), path);
    return file;
}

bool has_room(int file, int milliseconds) noexcept {
    pollfd what{file, POLLOUT, 0};
    return ::poll(&what, 1, milliseconds) > 0;
}

}  // namespace

log_file::log_file(std::string path)
    : path_(std::move(path)), file_(open_file(path_)), writer_([this] { run(); }) {}

log_file::~log_file() {
    end();
    if (path_ != "-")
        ::close(file_);
}

void log_file::end() {
    if (!writer_.joinable())
        return;
    {
        std::lock_guard const lock(mutex_);
        ends_ = true;
        end_ = std::chrono::steady_clock::now() + patience_at_the_end;
    }
    changed_.notify_one();
    writer_.join();
}

void log_file::write(std::string_view line) {
    bool wakes = false;
    {
        std::lock_guard const lock(mutex_);
        if (pending_.size() + line.size() > most_pending) {
            ++dropped_;
            return;
        }
        bool const first = pending_.empty();
        bool const few = pending_.size() < enough_to_write;
        pending_ += line;
        wakes = first || (few && pending_.size() >= enough_to_write);
    }
    if (wakes)
        changed_.notify_one();
}

void log_file::reopen() {
    if (path_ == "-")
        return;
    {
        std::lock_guard const lock(mutex_);
        reopen_ = true;
    }
    changed_.notify_one();
}

void log_file::run() {
    std::string lines;
    for (bool ends = false; !ends;) {
        bool anew = false;
        lines.clear();
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return ends_ || reopen_ || !pending_.empty(); });
            changed_.wait_for(lock, time_to_gather, [this] {
                return ends_ || reopen_ || pending_.size() >= enough_to_write;
            });
            lines.swap(pending_);
            anew = std::exchange(reopen_, false);
            ends = ends_;
        }
        if (anew)
            open_anew();
        put(lines);
    }
}

void log_file::open_anew() {
    try {
        int const file = open_file(path_);
        ::close(std::exchange(file_, file));
        torn_ = false;
    } catch (std::system_error const& e) {
        complain(fmt::format("weir-proxy: cannot reopen the access log {}: {}\n", path_,
                             e.code().message()));
    }
}

void log_file::put(std::string_view lines) {
    if (torn_ && !lines.empty() && wait_for_room())
        torn_ = ::write(file_, "\n", 1) != 1;
    while (!lines.empty()) {
        // A pipe that has room accepts at least PIPE_BUF bytes.
        auto const n =
            wait_for_room()
                ? ::write(file_, lines.data(), std::min<std::size_t>(lines.size(), PIPE_BUF))
                : -1;
        if (n > 0) {
            torn_ = lines[static_cast<std::size_t>(n) - 1] != '\n';
            lines.remove_prefix(static_cast<std::size_t>(n));
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR) || called_off()) {
            dropped_ += static_cast<std::uint64_t>(std::ranges::count(lines, '\n'));
            return;
        }
    }
}

bool log_file::wait_for_room() {
    while (!has_room(file_, patience_of_a_look)) {
        if (called_off()) {
            errno = EAGAIN;
            return false;
        }
    }
    return true;
}

// Whether the writer must stop waiting: to reopen the file, or because the time to end is over.
bool log_file::called_off() {
    std::lock_guard const lock(mutex_);
    return reopen_ || (ends_ && std::chrono::steady_clock::now() >= end_);
}

void complain(std::string_view text) noexcept {
    while (!text.empty() && has_room(STDERR_FILENO, 0)) {
        auto size =
            std::min<std::size_t>(text.size(), PIPE_BUF);  // for which a pipe with room has room
        if (size != text.size())
            if (auto const end = text.rfind('\n', size - 1); end != text.npos)
                size = end + 1;
        auto const written = ::write(STDERR_FILENO, text.data(), size);
        if (written <= 0)
            return;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
}

}  // namespace tool
