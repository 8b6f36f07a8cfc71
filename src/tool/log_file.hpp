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

/// A file to which lines are appended.
///
/// A background thread writes the lines, so that `write` never waits for a slow disk or for the reader of a pipe. A
/// line is dropped and counted if it cannot be written or if more than 1 MiB would be pending. The thread collects
/// lines for 10 ms, or until there are 64 KiB. The process must ignore the signals SIGPIPE and SIGXFSZ.
class log_file {
public:
    /// Opens the file, and creates it if necessary. `-` is standard output. Throws `std::system_error` if the file
    /// cannot be opened.
    explicit log_file(std::string path);

    ~log_file();

    /// Appends a line, which must end in a newline. Any thread may call this function.
    void write(std::string_view line);

    /// Reopens the path, for use after the file was renamed. If this fails, the log stays in the old file, and a
    /// message goes to standard error. Any thread may call this function.
    void reopen();

    /// Writes the pending lines, for at most one second; afterwards `dropped` is final. No thread may write lines any
    /// more. The destructor does the same if `end` was not called.
    void end();

    /// The number of dropped lines.
    [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

private:
    void run();
    void open_anew();
    void put(std::string_view lines);
    [[nodiscard]] bool wait_for_room();
    [[nodiscard]] bool called_off();

    std::string const path_;
    int file_;
    bool torn_ = false;  // the last written line is incomplete
    std::atomic<std::uint64_t> dropped_ = 0;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::string pending_;
    bool reopen_ = false;
    bool ends_ = false;
    std::chrono::steady_clock::time_point end_;
    std::thread writer_;
};

/// Writes a text to standard error without waiting. If there is no room for all of it, the last lines are missing.
void complain(std::string_view text) noexcept;

}  // namespace tool
