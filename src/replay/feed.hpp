#pragma once

#include "logs/format.hpp"
#include "logs/input.hpp"
#include "simulation.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace replay {

/// The logs to read, and how to read them.
struct logs_options {
    std::vector<std::string> files;  // `-` is standard input
    std::optional<std::string> format;
    std::optional<logs::stamped> when;
    double most_unreadable = 0.05;  // largest share of all lines
};

/// A line that the replay skipped.
struct unreadable_line {
    std::string file;
    std::uint64_t number = 0;
    std::string text;  // the line as a terminal can show it, shortened
    std::string why;
};

/// The progress and result of reading the logs.
struct reading {
    static constexpr std::size_t most_shown = 3;

    struct file {
        std::string name;
        std::string format;
        bool says_held = false;
    };
    std::vector<file> files;
    std::uint64_t lines = 0;
    std::uint64_t unreadable = 0;
    std::uint64_t invalid = 0;              // requests that the server rejected as invalid
    std::uint64_t connections = 0;          // connections of other protocols, without requests
    std::vector<unreadable_line> shown;     // the first `most_shown` unreadable lines
    std::vector<logs::key_source> missing;  // wanted keys that no log has
    std::uint64_t bytes = 0;  // bytes of the files read so far; compressed size if compressed
    std::uint64_t bytes_in_all = 0;  // size of all files; 0 if unknown
    bool broken_off = false;
};

/// How a caller stops and watches the reading.
struct watch {
    std::atomic<bool> const* stop = nullptr;       // true interrupts the reading
    std::function<void(reading const&)> progress;  // called every 8192 lines
};

/// Logs to be replayed together.
class log_set {
public:
    /// Opens the logs and detects their formats. Throws `logs::input_error`, and `tool::usage_error` if `o.format` is
    /// not a format.
    explicit log_set(logs_options o, watch w = {});
    ~log_set();
    log_set(log_set const&) = delete;

    /// Whether the formats of all logs contain service times.
    [[nodiscard]] bool says_held() const noexcept;
    /// Whether the first lines of any log contain a time in whole seconds.
    [[nodiscard]] bool has_whole_seconds() const noexcept { return has_whole_seconds_; }

    /// Reads the logs, merged by time, into the simulation, and finishes it. Call it only once. Throws
    /// `logs::input_error`, and `tool::usage_error` if a format lacks a key.
    [[nodiscard]] reading feed(simulation& e);

private:
    class file;

    void check() const;

    logs_options options_;
    watch watch_;
    reading reading_;
    std::vector<std::unique_ptr<file>> files_;
    bool has_whole_seconds_ = false;
};

}  // namespace replay
