#include "zone_rules.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace weir::inline v0_2::detail {
namespace {

using std::chrono::seconds;

[[noreturn]] void reject(char const* reason) {
    throw std::invalid_argument(reason);
}

// Reads numbers in network byte order, and never beyond the end.
class byte_reader {
public:
    explicit byte_reader(std::string_view bytes) noexcept : rest_(bytes) {}

    [[nodiscard]] std::string_view take(std::size_t n) {
        if (n > rest_.size())
            reject("the file is too short");
        auto const taken = rest_.substr(0, n);
        rest_.remove_prefix(n);
        return taken;
    }
    [[nodiscard]] std::uint8_t byte() { return static_cast<std::uint8_t>(take(1).front()); }
    [[nodiscard]] std::uint32_t four() {
        std::uint32_t n = 0;
        for (char const c : take(4))
            n = n << 8 | static_cast<std::uint8_t>(c);
        return n;
    }
    [[nodiscard]] std::int64_t eight() {
        std::uint64_t const high = four();
        return static_cast<std::int64_t>(high << 32 | four());
    }
    [[nodiscard]] std::string_view rest() const noexcept { return rest_; }

private:
    std::string_view rest_;
};

struct header {
    char version;
    // The numbers of entries.
    std::size_t ut_marks, standard_marks, leap_seconds, changes, types, letters;

    // The size of the block of data that follows, with times of `width` bytes.
    [[nodiscard]] std::size_t size(std::size_t width) const noexcept {
        return changes * (width + 1) + types * 6 + letters + leap_seconds * (width + 4) +
               standard_marks + ut_marks;
    }
};

header read_header(byte_reader& in) {
    if (in.take(4) != "TZif")
        reject("the file is not in the format TZif");
    header h{};
    h.version = in.take(1).front();
    (void)in.take(15);
    for (auto* const n :
         {&h.ut_marks, &h.standard_marks, &h.leap_seconds, &h.changes, &h.types, &h.letters})
        *n = in.four();
    return h;
}

// The text between two line feeds at the end of a file.
std::string_view read_footer(byte_reader& in) {
    if (in.take(1) != "\n")
        reject("the file has no rule at its end");
    auto const end = in.rest().find('\n');
    if (end == std::string_view::npos)
        reject("the rule at the end of the file has no end");
    return in.take(end);
}

}  // namespace

zone_rules zone_rules::parse(std::string_view bytes) {
    byte_reader in(bytes);
    auto h = read_header(in);
    if (h.version < '2')
        reject("the file is of version 1, but must be of version 2 or later");
    (void)in.take(h.size(4));  // the same with times of four bytes, for old readers
    h = read_header(in);
    if (h.leap_seconds != 0)
        reject("the file counts leap seconds");
    if (h.types == 0)
        reject("the file has no offset from UTC");
    if (h.size(8) > in.rest().size())
        reject("the file is too short");

    zone_rules rules;
    auto at = byte_reader(in.take(h.changes * 8));
    auto type = byte_reader(in.take(h.changes));
    std::vector<seconds> offsets;
    for (std::size_t i = 0; i != h.types; ++i) {
        seconds const offset(static_cast<std::int32_t>(in.four()));
        (void)in.take(2);  // whether it is summer time, and its name
        if (offset > std::chrono::hours(26) || offset < -std::chrono::hours(26))
            reject("an offset from UTC is too large");
        offsets.push_back(offset);
    }
    (void)in.take(h.letters + h.standard_marks + h.ut_marks);

    rules.first_ = offsets.front();
    for (std::size_t i = 0; i != h.changes; ++i) {
        change const next{time_zone::instant(seconds(at.eight())), {}};
        auto const of_type = type.byte();
        if (of_type >= offsets.size())
            reject("a change has an unknown offset from UTC");
        if (!rules.changes_.empty() && next.at <= rules.changes_.back().at)
            reject("the changes are not in order");
        rules.changes_.push_back({next.at, offsets[of_type]});
    }
    if (auto const text = read_footer(in); !text.empty()) {
        rules.rule_ = yearly_rule::parse(text);
        if (!rules.rule_)
            reject("the rule at the end of the file is broken");
    }
    return rules;
}

time_zone::period zone_rules::at(time_zone::instant t) const noexcept {
    using instant = time_zone::instant;
    auto const next = std::ranges::upper_bound(changes_, t, {}, &change::at);
    auto const begin = next == changes_.begin() ? instant::min() : std::prev(next)->at;
    if (next == changes_.end() && rule_) {
        auto p = rule_->at(t);
        p.begin = std::max(p.begin, begin);
        return p;
    }
    return {begin, next == changes_.end() ? instant::max() : next->at,
            next == changes_.begin() ? first_ : std::prev(next)->offset};
}

}  // namespace weir::inline v0_2::detail
