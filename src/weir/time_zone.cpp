#include <weir/time_zone.hpp>

#include "zone_rules.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace weir::inline v0_2 {
namespace {

constexpr std::size_t longest_name = 255;
constexpr std::size_t largest_file = 1 << 20;

// Whether `name` can be the name of a zone. Then it has no part `.` or `..`, and names a file below the folder.
bool is_proper(std::string_view name) noexcept {
    if (name.empty() || name.size() > longest_name)
        return false;
    bool begins = true;  // a part of the name
    for (char const c : name) {
        bool const is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool const is_later = (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '+';
        if (!is_letter && (begins || (!is_later && c != '/')))
            return false;
        begins = c == '/';
    }
    return !begins;
}

std::string folder() {
    char const* const named = std::getenv("TZDIR");
    return named && *named ? named : "/usr/share/zoneinfo";
}

[[noreturn]] void reject(std::string_view name, std::string const& reason) {
    throw std::invalid_argument("weir::time_zone: zone `" + std::string(name) + "`: " + reason);
}

std::string content_of(std::string const& path) {
    struct closer {
        void operator()(std::FILE* f) const noexcept { std::fclose(f); }
    };
    auto const failure = [] {
        return std::invalid_argument(
            "cannot read the file: " + std::generic_category().message(errno));
    };
    std::error_code ignored;  // `fopen` reports the reason
    auto const kind = std::filesystem::status(path, ignored).type();
    if (kind != std::filesystem::file_type::regular &&
        std::filesystem::exists(std::filesystem::file_status(kind)))
        throw std::invalid_argument("not a regular file");
    std::unique_ptr<std::FILE, closer> const file(std::fopen(path.c_str(), "rb"));
    if (!file)
        throw failure();
    std::string bytes(largest_file + 1, '\0');
    bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file.get()));
    if (std::ferror(file.get()) != 0)
        throw failure();
    if (bytes.size() > largest_file)
        throw std::invalid_argument("the file is larger than 1 MiB");
    return bytes;
}

// The zones that were read, by folder and name. They are never destroyed, because a limiter may use them until the
// process ends.
struct zones {
    std::mutex mutex;
    std::map<std::pair<std::string, std::string>, detail::zone_rules, std::less<>> known;
};

}  // namespace

time_zone::time_zone(std::string_view name) {
    if (name == "UTC")
        return;
    if (!is_proper(name))
        reject(name, "not a name of a time zone, such as `Europe/Berlin`");
    static auto& all = *new zones;
    std::lock_guard const lock(all.mutex);
    std::pair const key(folder(), std::string(name));
    auto found = all.known.find(key);
    if (found == all.known.end()) {
        auto const path = key.first + '/' + key.second;
        try {
            found = all.known.emplace(key, detail::zone_rules::parse(content_of(path))).first;
        } catch (std::invalid_argument const& e) {
            reject(name, path + ": " + e.what());
        }
        found->second.name = found->first.second;
    }
    rules_ = &found->second;
}

std::string_view time_zone::name() const noexcept {
    return rules_ ? rules_->name : "UTC";
}

time_zone::period time_zone::at(instant t) const noexcept {
    if (rules_)
        return rules_->at(t);
    return {instant::min(), instant::max(), std::chrono::seconds(0)};
}

}  // namespace weir::inline v0_2
