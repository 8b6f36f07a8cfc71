#include "trouble.hpp"

#include "log_file.hpp"

#include <boost/system/system_error.hpp>

#include <fmt/format.h>

#include <array>
#include <atomic>

namespace tool {
namespace {

std::atomic<level> least{level::info};

std::string how_often(std::string_view text, std::uint64_t times) {
    return fmt::format("{} ({} times in the last {} s)\n", text, times, troubles::pause.count());
}

constexpr std::array<std::string_view, 3> names{"error", "warning", "info"};

}  // namespace

std::string to_string(level l) {
    return std::string(names[static_cast<std::size_t>(l)]);
}

std::optional<level> level_of(std::string_view text) {
    for (std::size_t i = 0; i != names.size(); ++i)
        if (names[i] == text)
            return static_cast<level>(i);
    return std::nullopt;
}

std::string troubles::tell(std::string_view text, std::uint64_t times, clock::time_point now) {
    if (auto const found = all_.find(text); found != all_.end()) {
        found->second.unsaid += times;
        return {};
    }
    if (all_.size() < most)
        all_.emplace(text, known{times - 1, now + pause});
    return fmt::format("{}\n", text);
}

std::string troubles::look(clock::time_point now) {
    std::string out;
    for (auto i = all_.begin(); i != all_.end();) {
        auto& [text, one] = *i;
        if (now < one.until) {
            ++i;
        } else if (one.unsaid == 0) {
            i = all_.erase(i);
        } else {
            out += how_often(text, one.unsaid);
            one = {0, now + pause};
            ++i;
        }
    }
    return out;
}

void set_level(level l) noexcept {
    least = l;
}

void say(level l, std::string_view text) {
    if (l <= least && !text.empty())
        complain(text);
}

std::string reason_of(std::exception const& e) {
    std::string text = e.what();
    if (auto const* const failed = dynamic_cast<boost::system::system_error const*>(&e)) {
        auto const code = failed->code().what();
        if (auto const at = text.find(code); at != text.npos)
            text.replace(at, code.size(), failed->code().message());
    }
    return text;
}

}  // namespace tool
