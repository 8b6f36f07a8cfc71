#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tool {

/// A file that grows by lines. A thread of its own writes them, so that nobody waits for a slow disk
/// or for a pipe that nobody reads: a line that does not fit, or that cannot be written, is dropped
/// and counted. Lines are gathered for ten milliseconds, or until there are 64 KiB. Signals of files
/// (SIGPIPE, SIGXFSZ) must be ignored.
class log_file {
public:
    /// `-` is standard output. Throws `std::system_error` if the file cannot be opened.
    explicit log_file(std::string path);

    ~log_file();

    /// Any thread. `line` ends in a newline.
    void write(std::string_view line);

    /// Any thread. Opens the path anew, as when the file has been renamed; if that cannot be done, the
    /// old file stays, and standard error says so.
    void reopen();

    /// Writes the lines that are there, for a second at most; `dropped` is final afterwards. To be called before the
    /// destructor if at all, when no thread writes any more.
    void end();

    [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

private:
    void run();
    void open_anew();
    void put(std::string_view lines);
    [[nodiscard]] bool wait_for_room();
    [[nodiscard]] bool called_off();

    std::string const path_;
    int file_;
    bool torn_ = false;  // the last line that was written is not whole
    std::atomic<std::uint64_t> dropped_ = 0;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::string pending_;
    bool reopen_ = false;
    bool ends_ = false;
    std::chrono::steady_clock::time_point end_;
    std::thread writer_;
};

/// Writes to standard error what fits without waiting.
void complain(std::string_view text) noexcept;

}  // namespace tool
