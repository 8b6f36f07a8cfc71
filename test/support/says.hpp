#pragma once

#include <boost/test/unit_test.hpp>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace support {

/// For `BOOST_CHECK_EXCEPTION`: checks that the message of the exception is exactly `text`.
[[nodiscard]] inline auto says(std::string text) {
    return [text = std::move(text)](std::exception const& e) {
        BOOST_TEST(std::string_view(e.what()) == text);
        return e.what() == text;
    };
}

}  // namespace support
