#include "json.hpp"

namespace admin {

// Bytes that are no ASCII are shown as Latin-1, so that the text is valid whatever they are.
void json::quote(std::string_view text) {
    out_ += '"';
    for (char const c : text) {
        auto const byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            out_.append(1, '\\').append(1, c);
        else if (byte < 0x20 || byte >= 0x7f)
            fmt::format_to(std::back_inserter(out_), "\\u{:04x}", byte);
        else
            out_ += c;
    }
    out_ += '"';
}

}  // namespace admin
