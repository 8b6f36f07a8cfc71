#pragma once

#include <csignal>

namespace proxy {

/// The signals that a running proxy obeys, and that must not end a starting one.
inline constexpr int early_signals[] = {SIGHUP, SIGUSR1};

namespace detail {

inline void mask_early_signals(int how) noexcept {
    sigset_t all;
    sigemptyset(&all);
    for (int const s : early_signals)
        sigaddset(&all, s);
    pthread_sigmask(how, &all, nullptr);
}

}  // namespace detail

/// Lets these signals wait. Call it before the program starts a thread.
inline void hold_signals() noexcept {
    detail::mask_early_signals(SIG_BLOCK);
}
/// Handles the signals that wait, and later ones. Call it when they have handlers, on the thread that called
/// `hold_signals`, before it starts a thread that shall handle them.
inline void pass_signals() noexcept {
    detail::mask_early_signals(SIG_UNBLOCK);
}

}  // namespace proxy
