// weir-replay: applies limits to the requests of an access log; see `weir-replay --help`. lane.hpp sends the requests
// through the limiters of the library.

#include "config/read.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "run.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace {

std::atomic<bool> stop = false;

void break_off(int) {
    stop = true;
}

int run_and_tell(replay::options const& o) {
    struct sigaction once{};  // a second signal ends the process immediately
    once.sa_handler = break_off;
    once.sa_flags = static_cast<int>(SA_RESETHAND);
    for (int const s : {SIGINT, SIGTERM})
        sigaction(s, &once, nullptr);
    replay::progress_bar bar;
    replay::watch w{.stop = &stop, .progress = {}};
    if (bar.is_on_terminal())
        w.progress = [&](replay::reading const& r) { bar.show(r); };
    auto const found = replay::run(o, w);
    bar.clear();
    auto const text = o.json ? to_json(found) : to_text(found);
    std::fputs(text.c_str(), stdout);
    if (!o.html.empty()) {
        auto const page = to_html(found);
        std::ofstream file(o.html);
        file << page;
        file.close();
        if (!file)
            throw std::runtime_error(fmt::format(
                "cannot write `{}`: {}", o.html, std::generic_category().message(errno)));
    }
    return found.read.broken_off ? 130 : 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        auto const o = replay::parse_options(argc, argv);
        if (!o.help.empty()) {
            std::fputs(o.help.c_str(), stdout);
            return 0;
        }
        return run_and_tell(o);
    } catch (config::bad_configuration const& e) {
        for (auto const& line : e.problems())
            fmt::print(stderr, "weir-replay: {}\n", line);
        return 2;
    } catch (tool::usage_error const& e) {
        fmt::print(stderr, "weir-replay: {}\n", e.what());
        return 2;
    } catch (std::invalid_argument const& e) {  // from limiters, about their options
        fmt::print(stderr, "weir-replay: {}\n", e.what());
        return 2;
    } catch (replay::broken_off const& e) {
        fmt::print(stderr, "weir-replay: {}\n", e.what());
        return 130;
    } catch (std::exception const& e) {
        fmt::print(stderr, "weir-replay: {}\n", e.what());
        return 1;
    }
}
