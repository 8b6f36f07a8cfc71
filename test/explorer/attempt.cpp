#include "attempt.hpp"

#include "oracle.hpp"

#include <fmt/format.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

namespace explorer {
namespace {

constexpr int exit_violated = 42;

report& shared() {
    static report* const memory = [] {
        auto* const p = ::mmap(
            nullptr, sizeof(report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            throw std::bad_alloc();
        return static_cast<report*>(p);
    }();
    return *memory;
}

template <std::size_t Size>
void copy(char (&to)[Size], std::string_view from) {
    auto const n = std::min(from.size(), Size - 1);
    std::copy_n(from.data(), n, to);
    to[n] = '\0';
}

}  // namespace

std::string_view invariant_of(report const& r) {
    return r.invariant;
}

std::vector<std::uint8_t> choices_of(report const& r) {
    return {r.log.choice, r.log.choice + r.log.size};
}

report const& last_report() {
    return shared();
}

void violated(std::string_view invariant, std::string const& what) {
    copy(shared().invariant, invariant);
    copy(shared().what, what);
    std::fflush(stdout);
    ::_exit(exit_violated);
}

void attempt(std::function<void(report&)> const& body, unsigned seconds) {
    auto& r = shared();
    r.runs = r.choices = 0;
    r.requests = {};
    r.invariant[0] = r.what[0] = '\0';
    r.log.size = 0;
    std::fflush(stdout);
    std::fflush(stderr);

    auto const child = ::fork();
    if (child < 0) {
        std::perror("fork");
        std::exit(2);
    }
    if (child == 0) {
        ::alarm(seconds);
        body(r);
        std::fflush(stdout);
        std::exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
        copy(r.invariant, invariant::crash);
        copy(r.what, WTERMSIG(status) == SIGALRM
                         ? std::string("takes too long")
                         : fmt::format("killed by signal {}", WTERMSIG(status)));
    } else if (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != exit_violated) {
        copy(r.invariant, invariant::crash);
        copy(r.what, fmt::format("exit code {}", WEXITSTATUS(status)));
    }
}

}  // namespace explorer
