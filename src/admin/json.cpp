#include "json.hpp"

#include "tool/text.hpp"

namespace admin {
namespace {

// One pass without a branch for each byte: most texts are plain, and the access log has several in a line.
bool is_plain(std::string_view text) noexcept {
    unsigned special = 0;
    for (char const c : text) {
        auto const byte = static_cast<unsigned char>(c);
        special |= static_cast<unsigned>(byte < ' ' || byte >= 127 || c == '"' || c == '\\');
    }
    return special == 0;
}

}  // namespace

// What is no UTF-8 is shown as Latin-1, so that the text is valid whatever it is.
void json::quote(std::string_view text) {
    if (is_plain(text)) {
        out_.append(1, '"').append(text).append(1, '"');
        return;
    }
    using enum tool::beyond_ascii;
    tool::append_quoted(out_, text, tool::is_utf8(text) ? as_they_are : as_latin_1);
}

}  // namespace admin
