#include "config/read.hpp"
#include "config/write.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

void require(bool is_so) {
    if (!is_so)
        std::abort();
}

}  // namespace

// A text is a configuration, from which `write` makes an equivalent text; or it has errors, with a line for each.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::string_view const text(reinterpret_cast<char const*>(data), size);
    std::string written;
    try {
        written = write(config::read(text, "file"));
    } catch (config::bad_configuration const& wrong) {
        require(!wrong.problems().empty());
        for (auto const& line : wrong.problems()) {
            require(line.starts_with("file:"));
            require(line.find('\n') == line.npos);
        }
        return 0;
    }
    require(write(config::read(written, "written")) == written);
    return 0;
}
