#include <weir/saved_file.hpp>
#include <weir/saved_numbers.hpp>

#include <boost/crc.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <set>

namespace weir::inline v0_2 {
namespace {

constexpr std::string_view magic = "WEIRSTAT";
constexpr std::uint64_t version = 1;
constexpr std::size_t header_size = 8 + 2 + 8 + 4;
constexpr std::size_t block_head = 4 + 4;
constexpr std::size_t most_payload = 64 * 1024;

constexpr std::uint64_t nanoseconds_of(std::chrono::nanoseconds d) noexcept {
    return static_cast<std::uint64_t>(d.count());
}
constexpr auto most_ahead = nanoseconds_of(std::chrono::days(1));
constexpr std::chrono::nanoseconds most_away = std::chrono::days(366);

// CRC-32C: Castagnoli's polynomial.
std::uint32_t checksum(std::string_view bytes) noexcept {
    boost::crc_optimal<32, 0x1edc6f41, 0xffffffff, 0xffffffff, true, true> sum;
    sum.process_bytes(bytes.data(), bytes.size());
    return sum.checksum();
}

// Numbers of a fixed size, the lowest byte first.
template <std::size_t size>
void append(std::string& to, std::uint64_t n) {
    for (std::size_t i = 0; i != size; ++i, n >>= 8)
        to.push_back(static_cast<char>(static_cast<unsigned char>(n)));
}
template <std::size_t size>
std::uint64_t number_at(std::string_view bytes, std::size_t at) noexcept {
    std::uint64_t n = 0;
    for (std::size_t i = size; i-- != 0;)
        n = n << 8 | static_cast<unsigned char>(bytes[at + i]);
    return n;
}

std::uint64_t read(wall_clock clock) noexcept {
    wall_time const t = clock ? clock() : std::chrono::system_clock::now();
    auto const since = t.time_since_epoch();
    return since.count() < 0 ? 0 : nanoseconds_of(since);
}

}  // namespace

bad_saved_state::bad_saved_state(std::uint64_t byte, std::string const& reason)
    : std::runtime_error(fmt::format("byte {}: {}", byte, reason)), byte_(byte) {}

// ---- Writing

state_writer::state_writer(sink to, wall_clock clock) : to_(std::move(to)), clock_(clock) {
    std::string header(magic);
    append<2>(header, version);
    append<8>(header, wall());
    append<4>(header, checksum(header));
    to_(header);
}

std::uint64_t state_writer::wall() const noexcept {
    return read(clock_);
}

void state_writer::note(std::string_view name, std::string_view text) {
    std::string content(1, static_cast<char>(saved_state::kind::note));
    number_writer writer(content);
    writer.add_bytes(name);
    content += text;
    add_record(content);
}

void state_writer::limiter(std::uint64_t wall, bool keyed, std::string_view name,
                           std::string_view rule, std::string_view numbers) {
    std::string content(1, static_cast<char>(saved_state::kind::limiter));
    number_writer writer(content);
    writer.add(wall);
    writer.add(number_writer::wide{keyed});
    writer.add_bytes(name);
    writer.add_bytes(rule);
    content += numbers;
    add_record(content);
}

void state_writer::add_record(std::string_view content) {
    std::string record;
    number_writer(record).add_bytes(content);
    add_records(record, 1);
}

void state_writer::add_records(std::string_view records, std::uint64_t count) {
    put(records);
    records_ += count;
}

// The records are one stream, which is cut into blocks.
void state_writer::put(std::string_view payload) {
    while (!payload.empty()) {
        auto const part = payload.substr(0, most_payload - block_.size());
        block_ += part;
        payload.remove_prefix(part.size());
        if (block_.size() == most_payload)
            put_block();
    }
}

void state_writer::put_block() {
    std::string head;
    append<4>(head, block_.size());
    append<4>(head, checksum(block_));
    to_(head + block_);
    block_.clear();
}

void state_writer::finish() {
    std::string content(1, static_cast<char>(saved_state::kind::end));
    number_writer(content).add(records_);
    add_record(content);
    put_block();
}

// ---- Reading

saved_state::saved_state(std::string file, wall_clock clock)
    : file_(std::move(file)), clock_(clock) {
    take_apart();
    index();
}

// Checks the header and the blocks, and removes all but their contents.
void saved_state::take_apart() {
    std::string_view const all(file_);
    if (!all.starts_with(magic.substr(0, all.size())) || all.empty())
        throw bad_saved_state(0, "this is not a saved state");
    if (all.size() < header_size)
        throw bad_saved_state(all.size(), "the file ends in its header");
    if (number_at<4>(all, header_size - 4) != checksum(all.substr(0, header_size - 4)))
        throw bad_saved_state(header_size - 4, "the checksum of the header is wrong");
    if (auto const its = number_at<2>(all, magic.size()); its != version)
        throw bad_saved_state(
            magic.size(),
            fmt::format("the version is {}, but this program reads {}", its, version));
    auto const saved_at = number_at<8>(all, magic.size() + 2);
    auto const now = read(clock_);
    if (saved_at > now && saved_at - now > most_ahead)
        throw bad_saved_state(magic.size() + 2,
                              "it was saved more than a day later than the wall clock shows");

    std::size_t kept = 0;
    for (std::size_t at = header_size; at != all.size();) {
        if (all.size() - at < block_head)
            throw bad_saved_state(all.size(), "the file ends in the head of a block");
        auto const length = static_cast<std::size_t>(number_at<4>(all, at));
        if (length == 0 || length > most_payload)
            throw bad_saved_state(at, fmt::format("a block has {} bytes", length));
        if (all.size() - at - block_head < length)
            throw bad_saved_state(all.size(), "the file ends in a block");
        if (number_at<4>(all, at + 4) != checksum(all.substr(at + block_head, length)))
            throw bad_saved_state(at + 4, "the checksum of a block is wrong");
        at += block_head;
        blocks_.emplace_back(kept, at - kept);
        std::copy_n(file_.begin() + static_cast<std::ptrdiff_t>(at), length,
                    file_.begin() + static_cast<std::ptrdiff_t>(kept));
        kept += length;
        at += length;
    }
    if (blocks_.empty())
        throw bad_saved_state(all.size(), "the file ends behind its header");
    file_.resize(kept);
}

// Returns the place in the file of the first byte of `rest`, which is the end of the contents.
std::uint64_t saved_state::byte_of(std::string_view rest) const noexcept {
    auto const at = file_.size() - rest.size();
    auto const next =
        std::ranges::upper_bound(blocks_, at, {}, [](auto const& b) { return b.first; });
    return at + std::prev(next)->second;
}

std::optional<saved_state::record> saved_state::next_record(std::string_view& rest) noexcept {
    number_reader from(rest);
    auto const content = from.next_bytes();
    if (from.failed() || content.empty())
        return std::nullopt;
    rest = from.rest();
    return record{static_cast<kind>(content.front()), content.substr(1)};
}

void saved_state::index() {
    std::string_view rest(file_);
    std::uint64_t count = 0;
    bool in_limiter = false;
    std::set<std::string_view> names;
    auto const end_limiter = [&](std::string_view end) {
        if (!std::exchange(in_limiter, false))
            return;
        limiters_.back().records.remove_suffix(end.size());
    };
    for (;;) {
        auto const at = rest;
        auto const complain = [&](std::string const& reason) {
            throw bad_saved_state(byte_of(at), reason);
        };
        auto const next = next_record(rest);
        if (!next)
            complain("a record is incomplete");
        number_reader from(next->content);
        bool is_known = true;
        switch (next->what) {
            case kind::end:
                end_limiter(at);
                if (from.next_as<std::uint64_t>() != count || !from.is_done() || !rest.empty())
                    complain("the last record does not match the others");
                return;
            case kind::note: {
                end_limiter(at);
                auto const name = from.next_bytes();
                notes_.emplace_back(name, from.rest());
                break;
            }
            case kind::limiter: {
                end_limiter(at);
                saved_limiter made;
                made.wall =
                    from.next_as<std::uint64_t>(std::numeric_limits<std::uint64_t>::max() / 4);
                made.is_keyed = from.next(1) != 0;
                made.name = from.next_bytes();
                made.rule = from.next_bytes();
                made.numbers = from.rest();
                made.records = rest;
                if (!names.insert(made.name).second)
                    complain("two limiters have the same name");
                limiters_.push_back(made);
                in_limiter = true;
                break;
            }
            case kind::time:
            case kind::key:
            case kind::key_of_rule:
            case kind::shared: {
                if (!in_limiter || !limiters_.back().is_keyed)
                    complain("a key belongs to no limiter");
                auto& owner = limiters_.back();
                if (next->what == kind::time)
                    owner.took = std::max(owner.took,
                                          duration(from.next_as<std::int64_t>(most_away.count())));
                else if (next->what != kind::shared)
                    ++owner.keys;
                break;
            }
            default:
                is_known = false;
                break;
        }
        if (!is_known || from.failed())
            complain("a record has no meaning");
        ++count;
    }
}

saved_state::saved_limiter const* saved_state::find(std::string_view name) const noexcept {
    auto const found = std::ranges::find(limiters_, name, &saved_limiter::name);
    return found == limiters_.end() ? nullptr : &*found;
}

duration saved_state::away(saved_limiter const& l) const noexcept {
    auto const now = read(clock_);
    auto const saved_at = l.wall + nanoseconds_of(l.took);
    auto const away = now > saved_at ? now - saved_at : 0;
    return duration(static_cast<duration::rep>(std::min(away, nanoseconds_of(most_away))));
}

std::vector<std::string_view> saved_state::names() const {
    std::vector<std::string_view> all;
    for (auto const& one : limiters_)
        all.push_back(one.name);
    return all;
}

std::optional<std::string_view> saved_state::note(std::string_view name) const {
    for (auto const& [its, text] : notes_)
        if (its == name)
            return text;
    return std::nullopt;
}

}  // namespace weir::inline v0_2
