#include "body.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace config {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string const& message) {
    throw std::invalid_argument(message);
}

}  // namespace

std::string read_body(std::string_view name, std::string_view configuration) {
    auto const path = fs::path(configuration).parent_path() / name;
    std::error_code ec;
    auto const status = fs::status(path, ec);
    if (ec)
        fail(fmt::format("cannot read `{}`: {}", name, ec.message()));
    // Reading a pipe could block, and reading a device might never end.
    if (fs::exists(status) && !fs::is_regular_file(status))
        fail(fmt::format("`{}` is not a regular file", name));
    std::ifstream in(path, std::ios::binary);
    if (!in)
        fail(fmt::format("cannot read `{}`: {}", name, std::generic_category().message(errno)));
    std::string text(body::most_bytes + 1, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    if (text.size() > body::most_bytes)
        fail(fmt::format("`{}` has more than {} bytes", name, body::most_bytes));
    return text;
}

std::string type_by_name(std::string_view file) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4> known{
        {{".html", "text/html; charset=utf-8"},
         {".htm", "text/html; charset=utf-8"},
         {".txt", "text/plain; charset=utf-8"},
         {".json", "application/json"}}};
    for (auto const& [end, type] : known)
        if (file.ends_with(end))
            return std::string(type);
    return {};
}

}  // namespace config
