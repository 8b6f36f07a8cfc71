#pragma once

#include <weir/time_zone.hpp>

#include "support/temporary_folder.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Files of time zones, so that a test does not depend on the files of the system.
namespace support {

/// The content of a file in the format TZif (RFC 9636).
struct zone_file {
    char version = '2';
    std::vector<std::int32_t> offsets = {0};                          // of each type, in seconds
    std::vector<std::pair<std::int64_t, std::uint8_t>> changes = {};  // the instant and the type
    std::string rule = "";
    std::uint32_t leap_seconds = 0;

    [[nodiscard]] std::string bytes() const { return block(4) + block(8) + '\n' + rule + '\n'; }

private:
    static void append(std::string& out, std::uint64_t n, int width) {
        while (width-- != 0)
            out += static_cast<char>(n >> (8 * width));
    }
    [[nodiscard]] std::string block(int width) const {
        std::string out = "TZif";
        out.append(1, version).append(15, '\0');
        for (std::size_t const n : {std::size_t(0), std::size_t(0), std::size_t(leap_seconds),
                                    changes.size(), offsets.size(), std::size_t(4)})
            append(out, n, 4);
        for (auto const& [at, type] : changes)
            append(out, static_cast<std::uint64_t>(at), width);
        for (auto const& [at, type] : changes)
            append(out, type, 1);
        for (auto const offset : offsets) {
            append(out, static_cast<std::uint32_t>(offset), 4);
            append(out, 0, 2);
        }
        out.append("ABC").append(1, '\0');
        out.append(leap_seconds * static_cast<std::size_t>(width + 4), '\0');
        return out;
    }
};

/// A folder for files of zones, from which `weir::time_zone` reads while this object lives.
class zone_folder {
public:
    zone_folder() {
        if (auto const* const before = std::getenv("TZDIR"))
            before_ = before;
        ::setenv("TZDIR", folder_.string().c_str(), 1);
    }
    zone_folder(zone_folder const&) = delete;
    ~zone_folder() {
        if (before_.empty())
            ::unsetenv("TZDIR");
        else
            ::setenv("TZDIR", before_.c_str(), 1);
    }

    [[nodiscard]] std::string path() const { return folder_.string(); }
    void write(std::string const& name, std::string_view bytes) const {
        auto const file = folder_ / name.c_str();
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary) << bytes;
    }
    [[nodiscard]] weir::time_zone add(std::string const& name, zone_file const& content) const {
        write(name, content.bytes());
        return weir::time_zone(name);
    }

private:
    temporary_folder folder_{"weir-zones-"};
    std::string before_;
};

}  // namespace support
