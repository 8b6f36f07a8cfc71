#include "http/properties.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

// The first byte gives the kind of the message, the next three the positions of cuts. So a corpus is text: `0` begins
// a request, `1` a response to GET, `3` one to HEAD, `5` one that goes to HTTP/1.0, and `8` the claims of a token.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    constexpr std::size_t prefix = 4;
    if (size < prefix)
        return -1;
    std::string_view const bytes(reinterpret_cast<char const*>(data) + prefix, size - prefix);
    properties::cuts const cuts(std::span(data + 1, prefix - 1));
    bool const second = (data[0] & 2) != 0;
    if ((data[0] & 8) != 0)
        properties::claims(bytes);
    else if ((data[0] & 1) == 0)
        properties::request(bytes, second ? http::underscores::pass : http::underscores::drop,
                            cuts);
    else
        properties::answer(bytes, second ? http::verb::head : http::verb::get,
                           (data[0] & 4) != 0 ? 10 : 11, cuts);
    return 0;
}
