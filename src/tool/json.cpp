#include "json.hpp"

#include "text.hpp"

#include <optional>

namespace tool {

std::string quoted(std::string_view text) {
    std::string out;
    append_quoted(out, text);
    return out;
}

void append_quoted(std::string& out, std::string_view text) {
    std::optional<bool> utf8;  // checked only if the text has a byte above 0x7f
    out += '"';
    append_escaped(out, text, [&](char c) {
        auto const byte = static_cast<unsigned char>(c);
        if (byte > 0x7f && !utf8)
            utf8 = is_utf8(text);
        if (byte > 0x7f && *utf8)
            out += c;
        else if (c == '"' || c == '\\')
            out.append(1, '\\').append(1, c);
        else
            out += fmt::format("\\u{:04x}", byte);
    });
    out += '"';
}

}  // namespace tool
