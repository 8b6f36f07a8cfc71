#pragma once

#include <weir/saved_state.hpp>
#include <weir/testing.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

/// Saved states in memory, on virtual time.
namespace support::saved {

/// The wall clock of virtual time.
inline weir::wall_time wall() noexcept {
    return weir::wall_time(weir::testing::clock::now().time_since_epoch());
}
inline void pass(weir::duration d) {
    weir::testing::clock::advance_to(weir::testing::clock::now() + d);
}

/// Returns a file with the state of a limiter, which it calls `it`.
template <class Limiter>
std::string file_of(Limiter const& from) {
    std::string file;
    weir::state_writer to([&](std::string_view bytes) { file += bytes; }, &wall);
    save(from, to, "it");
    to.finish();
    return file;
}
template <class Limiter>
weir::restored_state restore(Limiter& to, std::string file) {
    weir::saved_state const state(std::move(file), &wall);
    return restore(to, state, "it");
}

}  // namespace support::saved
