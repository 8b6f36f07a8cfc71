#pragma once

#include "support/temporary_folder.hpp"

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// A process that runs one test case of this program, which is disabled otherwise. Its parameters are environment
/// variables, and it writes numbers to a file.
class worker {
public:
    using variables = std::vector<std::pair<std::string, std::string>>;

    worker(std::string const& test_case, variables const& environment);
    worker(worker&& other) noexcept
        : pid_(std::exchange(other.pid_, 0)), folder_(std::move(other.folder_)) {}
    worker& operator=(worker&&) = delete;
    ~worker();

    void send(int signal) const;
    /// Waits until it has written a number, and returns the first.
    [[nodiscard]] std::int64_t first_number() const;
    /// Waits for its end, which must be successful unless it was killed. Returns the numbers that it has written.
    std::vector<std::int64_t> numbers(bool killed = false);

    // For the process itself.

    /// Returns an environment variable.
    static std::string told(char const* name);
    /// Writes a number at once.
    static void tell(std::int64_t number);

private:
    [[nodiscard]] std::filesystem::path file() const { return folder_ / "numbers"; }

    pid_t pid_ = 0;
    temporary_folder folder_{"weir-worker-"};
};

}  // namespace support
