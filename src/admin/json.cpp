#include "json.hpp"

#include "tool/text.hpp"

#include <algorithm>

namespace admin {

// What is no UTF-8 is shown as Latin-1, so that the text is valid whatever it is.
void json::quote(std::string_view text) {
    // Most are, and each line of the access log has many.
    if (std::ranges::all_of(text, tool::is_plain)) {
        out_.append(1, '"').append(text).append(1, '"');
        return;
    }
    using enum tool::beyond_ascii;
    tool::append_quoted(out_, text, tool::is_utf8(text) ? as_they_are : as_latin_1);
}

}  // namespace admin
