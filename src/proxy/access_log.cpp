#include "access_log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <system_error>

namespace proxy {

access_log::access_log(std::string const& file)
    : file_(file == "-" ? stdout : std::fopen(file.c_str(), "a")) {
    if (!file_)
        throw std::system_error(errno, std::generic_category(), file);
    std::setvbuf(file_.get(), nullptr, _IOLBF, 64 * 1024);  // for those who watch it
}

void access_log::write(line const& l) {
    using namespace std::chrono;
    auto const now = system_clock::now();
    auto const ms = duration_cast<milliseconds>(now.time_since_epoch()).count() % 1000;
    auto const text =
        fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z {} \"{}\" {} {} {:.3f} {:.3f}\n",
                    fmt::gmtime(system_clock::to_time_t(now)), ms, l.client, l.request, l.status,
                    l.bytes, duration<double>(l.took).count(), duration<double>(l.waited).count());
    std::lock_guard const lock(mutex_);
    std::fwrite(text.data(), 1, text.size(), file_.get());
}

}  // namespace proxy
