#include "progress.hpp"

#include "report.hpp"
#include "tool/text.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <cstdio>
#include <string>

namespace replay {

using namespace std::chrono_literals;

bool progress_bar::is_on_terminal() const noexcept {
    return ::isatty(::fileno(to_)) == 1;
}

void progress_bar::show(reading const& r, clock::time_point now) {
    if (r.lines < lines_)  // another pass over the logs
        lines_before_ += lines_;
    lines_ = r.lines;
    if (now - last_ < 100ms)
        return;
    last_ = now;
    auto const took = tool::seconds(now - begin_);
    auto text = fmt::format("{} lines, {:.1f} million per second", grouped(r.lines),
                            static_cast<double>(lines_before_ + lines_) / took / 1e6);
    if (r.bytes_in_all != 0) {
        auto const part = static_cast<double>(r.bytes) / static_cast<double>(r.bytes_in_all);
        constexpr std::size_t width = 30;
        auto const full = static_cast<std::size_t>(part * static_cast<double>(width));
        text =
            fmt::format("[{:<{}}] {:3.0f} %  {}", std::string(full, '='), width, 100 * part, text);
        if (lines_before_ == 0 && part > 0)
            text += fmt::format(", {:.0f} s left", took * (1 - part) / part);
    }
    fmt::print(to_, "\r\x1b[K{}", text);
    std::fflush(to_);
    is_there_ = true;
}

void progress_bar::clear() {
    if (!is_there_)
        return;
    fmt::print(to_, "\r\x1b[K");
    std::fflush(to_);
    is_there_ = false;
}

}  // namespace replay
