#pragma once

#include "config/read.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>

/// The errors in a configuration; empty if it is valid.
inline std::string problem_of(std::string const& text) {
    try {
        static_cast<void>(config::read(text, "f"));
    } catch (config::bad_configuration const& wrong) {
        return wrong.what();
    }
    return "";
}

/// Whether a configuration is refused for a reason that contains `why`.
inline bool is_refused(std::string const& text, std::string_view why) {
    auto const problem = problem_of(text);
    bool const told = problem.find(why) != problem.npos;
    if (!told)
        BOOST_TEST_MESSAGE(problem);
    return told;
}
