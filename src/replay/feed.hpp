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

/// Which logs, and how they are read.
struct logs_options {
    std::vector<std::string> files;  // `-` is standard input
    std::optional<std::string> format;
    std::optional<logs::stamped> when;
    double most_unreadable = 0.05;  // of all lines
};

/// A line that was left out.
struct unreadable_line {
    std::string file;
    std::uint64_t number = 0;
    std::string text;  // what can be shown of it
    std::string why;
};

/// What was read.
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
    std::vector<unreadable_line> shown;     // the first of them
    std::vector<logs::key_source> missing;  // what was asked for, and no log has
    std::uint64_t bytes = 0;                // of the files, as they are stored
    std::uint64_t bytes_in_all = 0;         // 0: nobody knows
    bool broken_off = false;
};

/// What holds while it reads.
struct watch {
    std::atomic<bool> const* stop = nullptr;       // breaks it off
    std::function<void(reading const&)> progress;  // called every few thousand lines
};

/// The logs that are replayed together.
class log_set {
public:
    /// Opens them, and finds out their formats. Throws `logs::input_error`, and `tool::usage_error` if the format that was
    /// named is none.
    explicit log_set(logs_options o, watch w = {});
    ~log_set();
    log_set(log_set const&) = delete;

    /// Whether the format of each log has a place for how long requests were served.
    [[nodiscard]] bool says_held() const noexcept;
    /// Whether in one of them more than the second is not known of a time, as its first lines have it.
    [[nodiscard]] bool has_whole_seconds() const noexcept { return has_whole_seconds_; }

    /// Reads them, merged by time, into the simulation, and finishes it. Only once. Throws `logs::input_error`, and
    /// `tool::usage_error` if a format lacks a key.
    [[nodiscard]] reading feed(simulation& e);

private:
    class file;

    void note_missing(std::vector<logs::key_source> const& wanted);
    void check() const;

    logs_options options_;
    watch watch_;
    reading reading_;
    std::vector<std::unique_ptr<file>> files_;
    bool has_whole_seconds_ = false;
};

}  // namespace replay
