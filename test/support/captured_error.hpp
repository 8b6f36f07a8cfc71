#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>

namespace support {

/// While it lives, the standard error of the process is a pipe.
class captured_error {
public:
    captured_error() : before_(::dup(STDERR_FILENO)) {
        if (before_ < 0 || ::pipe2(pipe_.data(), O_NONBLOCK | O_CLOEXEC) != 0 ||
            ::dup2(pipe_[1], STDERR_FILENO) < 0)
            throw std::system_error(errno, std::generic_category(), "captured_error");
    }
    captured_error(captured_error const&) = delete;
    ~captured_error() {
        ::dup2(before_, STDERR_FILENO);
        for (int const file : {before_, pipe_[0], pipe_[1]})
            ::close(file);
    }

    /// The text since the previous call.
    [[nodiscard]] std::string take() {
        std::array<char, 4096> piece{};
        std::string text;
        for (auto n = ::read(pipe_[0], piece.data(), piece.size()); n > 0;
             n = ::read(pipe_[0], piece.data(), piece.size()))
            text.append(piece.data(), static_cast<std::size_t>(n));
        return text;
    }

private:
    int before_;
    std::array<int, 2> pipe_{};
};

}  // namespace support
