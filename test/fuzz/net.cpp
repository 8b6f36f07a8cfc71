#include "net/client_hello.hpp"
#include "net/hello_properties.hpp"
#include "net/proxy_protocol.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

// A header that is complete or wrong stays so, and a complete one has its size.
void introduction(std::string_view bytes, std::size_t first) {
    using state = net::introduction::state;
    auto const early = net::parse_introduction(std::string(bytes.substr(0, first)));
    auto const late = net::parse_introduction(std::string(bytes));
    bool const same = early.is == late.is && early.size == late.size && early.ends == late.ends;
    if ((early.is != state::incomplete && !same) || late.size > bytes.size() ||
        (late.is == state::complete) != (late.size > 0))
        std::abort();
}

}  // namespace

// The first two bytes are a position of the others: the end of the bytes that came first, or of each record. So a corpus
// is what connections begin with.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    constexpr std::size_t prefix = 2;
    if (size < prefix)
        return -1;
    std::string_view const bytes(reinterpret_cast<char const*>(data) + prefix, size - prefix);
    auto const at = std::size_t(data[0]) << 8 | data[1];
    hello::stays_the_same(bytes, at);
    hello::is_the_same_in_records(bytes, at);
    introduction(bytes, at);
    return 0;
}
