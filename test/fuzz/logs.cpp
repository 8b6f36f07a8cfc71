#include "logs/format.hpp"
#include "logs/stamp.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

void require(bool is_so) {
    if (!is_so)
        std::abort();
}

using kind = logs::key_source::kind;
std::vector<logs::key_source> const keys{
    {},
    {kind::method},
    {kind::target},
    {kind::host, {}, true},
    {kind::field, "header User-Agent", true}};

// An entry with copies of its texts.
struct copied {
    explicit copied(logs::entry const& e) : entry(e), keys(e.keys.begin(), e.keys.end()) {
        entry.keys = {};
    }
    logs::entry entry;
    std::vector<std::string> keys;
};

bool same(copied const& a, copied const& b) {
    return a.entry.at == b.entry.at && a.entry.whole_second == b.entry.whole_second &&
           a.entry.before == b.entry.before && a.entry.held == b.entry.held &&
           a.entry.status == b.entry.status && a.keys == b.keys;
}

// Reading a line gives the same result each time. A key is a part of the line, or decoded from a part and no longer
// than that.
void read_twice(logs::line_reader& reader, std::string_view line) {
    using namespace std::chrono_literals;
    logs::entry e;
    if (!reader.read(line, e))
        return;
    copied const first(e);
    for (auto const& key : first.keys)
        require(key.size() <= line.size());
    require(e.before <= 24h && e.before >= -24h);
    require(!e.held || (*e.held >= 0s && *e.held <= 24h));
    require(e.status <= 999);
    require(reader.read(line, e) && same(first, copied(e)));
}

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        auto const line = text.substr(0, text.find('\n'));
        lines.emplace_back(line);
        text.remove_prefix(std::min(text.size(), line.size() + 1));
    }
    return lines;
}

void read_all(logs::format const& format, std::vector<std::string> const& lines) {
    auto const reader = format.make_reader(keys);
    for (auto const& line : lines)
        read_twice(*reader, line);
}

}  // namespace

// The first byte gives the format of the lines that follow: `0` to `4` are known by name, for `5` the first line is
// the format, and for other bytes the format is detected.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    if (size == 0)
        return -1;
    std::string_view const text(reinterpret_cast<char const*>(data) + 1, size - 1);
    auto lines = lines_of(text);
    constexpr std::array<char const*, 5> names{
        "common", "combined", "haproxy", "weir-proxy", "json"};
    auto const which = static_cast<std::size_t>(data[0] - '0');
    try {
        if (which < names.size()) {
            read_all(logs::format::parse(names[which]), lines);
        } else if (which == names.size() && !lines.empty()) {
            auto const format = logs::format::parse(lines.front());
            lines.erase(lines.begin());
            read_all(format, lines);
        } else {
            read_all(logs::format::of_lines(lines), lines);
        }
    } catch (std::invalid_argument const&) {  // a format has an error
    }
    for (auto const& line : lines)
        static_cast<void>(logs::stamp_of(line));
    return 0;
}
