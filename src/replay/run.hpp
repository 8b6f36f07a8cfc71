#pragma once

#include "feed.hpp"
#include "options.hpp"
#include "report.hpp"

#include <exception>

namespace replay {

/// A search was interrupted before it had a result.
class broken_off : public std::exception {
public:
    [[nodiscard]] char const* what() const noexcept override {
        return "search interrupted without a result";
    }
};

/// Runs the replay or search of the options, without output. Throws `tool::usage_error`, `logs::input_error` and
/// `broken_off`.
[[nodiscard]] report run(options const& o, watch const& w = {});

}  // namespace replay
