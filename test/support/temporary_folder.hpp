#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace support {

/// A temporary folder. Its destructor deletes it with its contents.
class temporary_folder {
public:
    /// Its name begins with `name`.
    explicit temporary_folder(std::string const& name) {
        auto path = (std::filesystem::temp_directory_path() / name).string() + std::string(6, 'X');
        if (!::mkdtemp(path.data()))
            throw std::system_error(errno, std::generic_category(), "mkdtemp");
        path_ = path;
    }
    temporary_folder(temporary_folder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    temporary_folder& operator=(temporary_folder&&) = delete;
    ~temporary_folder() {
        std::error_code ignored;
        if (!path_.empty())
            std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] std::filesystem::path operator/(char const* file) const { return path_ / file; }
    [[nodiscard]] std::string string() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

}  // namespace support
