#pragma once

#include "feed.hpp"
#include "options.hpp"
#include "report.hpp"

#include <exception>

namespace replay {

/// A search that was broken off has found nothing.
class broken_off : public std::exception {
public:
    [[nodiscard]] char const* what() const noexcept override {
        return "the search was broken off: it has found nothing";
    }
};

/// Does what the options say, and prints nothing. Throws `tool::usage_error` , `logs::input_error` and
/// `broken_off`.
[[nodiscard]] report run(options const& o, watch const& w = {});

}  // namespace replay
