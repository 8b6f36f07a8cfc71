#include "json.hpp"

#include "tool/text.hpp"

namespace admin {

// What is no UTF-8 is shown as Latin-1, so that the text is valid whatever it is.
void json::quote(std::string_view text) {
    using enum tool::beyond_ascii;
    tool::append_quoted(out_, text, tool::is_utf8(text) ? as_they_are : as_latin_1);
}

}  // namespace admin
