#include "statements.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace weir::inline v0_2::mysql::detail {
namespace {

using parameter = statement_text::parameter;
using namespace std::string_view_literals;

constexpr std::array names{
    std::pair{"key"sv, parameter::key},         std::pair{"least"sv, parameter::least},
    std::pair{"most"sv, parameter::most},       std::pair{"ahead"sv, parameter::ahead},
    std::pair{"count"sv, parameter::count},     std::pair{"since"sv, parameter::since},
    std::pair{"burst"sv, parameter::burst},     std::pair{"permit"sv, parameter::permit},
    std::pair{"drained"sv, parameter::drained}, std::pair{"full"sv, parameter::full},
    std::pair{"owed"sv, parameter::owed},       std::pair{"gap"sv, parameter::gap},
    std::pair{"every"sv, parameter::every},     std::pair{"window"sv, parameter::window},
    std::pair{"version"sv, parameter::version}, std::pair{"state"sv, parameter::state},
};

std::string replaced(std::string text, std::string_view what, std::string_view with) {
    for (auto at = text.find(what); at != text.npos; at = text.find(what, at + with.size()))
        text.replace(at, what.size(), with);
    return text;
}

// A reply is one number, because an insert returns nothing else: the identifier of the new row. Its last two bits are
// the kind: 0 is a rejection, with the wait above them; 1 is a grant, with the number of permits in the next 29 bits; 2
// is a booked grant, with the wait in the next 29 bits. For 1 and 2 the last 32 bits of the time are above all that.
constexpr std::uint64_t kinds = 4;
constexpr std::uint64_t values = 1 << 29;

// User variables are assigned in the order of evaluation, from left to right. They are cast at each use, because their
// types are unknown when the statement is prepared. `level` is assigned first, so the expressions for it use the old
// `at` and `permit`. After a change of the rate the level is in permits of another size, and is converted, rounded up.
constexpr std::string_view take_text = R"(
insert into weir_bucket(k, at, level, permit) values(
  :key,
  (@n := NOW),
  :permit * least(:most, :burst) - :owed
    + 0 * last_insert_id(4 * (least(:most, :burst) + TIME) + 1),
  :permit)
on duplicate key update
  level = case
    when (@g := least(:most, (:full - cast((@l := greatest(
        if(permit = :permit, level, (cast(greatest(level, 0) as decimal(40)) * :permit + permit - 1) div permit)
          - :drained * least(greatest((@n := NOW) - at, 0), :gap), -:owed)) as signed)) div :permit)) >= :least
      then cast(@l as signed) + :permit * cast((@w := @g) as signed)
        + 0 * last_insert_id(4 * (cast(@g as signed) + TIME) + 1)
    when (@w := (:least * :permit - :full + cast(@l as signed) + :drained - 1) div :drained) <= :ahead
      then cast(@l as signed) + :permit * :least
        + 0 * last_insert_id(4 * (cast(@w as signed) + TIME) + 2)
    else if(at > cast(@n as signed) or permit <> :permit, cast(@l as signed), level)
        + 0 * last_insert_id(4 * cast(@w as signed))
  end,
  at = if(cast(@g as signed) >= :least or cast(@w as signed) <= :ahead or at > cast(@n as signed)
          or permit <> :permit, cast(@n as signed), at),
  permit = :permit)";

constexpr std::string_view give_back_text = R"(
update weir_bucket set
  level = if((@l := greatest(level - :drained * least((@n := NOW) - at, :gap), -:owed)) > :full,
    cast(@l as signed),
    greatest(cast(@l as signed)
        - greatest(:count * :permit - :drained * least(cast(@n as signed) - :since, :gap), 0), -:owed)),
  at = cast(@n as signed)
where k = :key and permit = :permit and at <= NOW and :since <= NOW)";

// A log is the times of its grants, the last one first, 8 bytes each, so that the order of the bytes is the order of
// the times. @n is the time, and @t the log's time, which continues when the clock is set back. @g is the number of
// permits granted now: at most the larger, and at least the smaller requested number. @w is otherwise the time until
// the smaller number can be granted.
constexpr std::string_view take_of_log_text = R"(
insert into weir_log(k, at, ahead, grants) values(
  :key,
  (@t := NOW),
  0,
  repeat(STAMP(cast(@t as signed)), least(:most, :burst)
    + 0 * last_insert_id(4 * (least(:most, :burst) + LOG_TIME) + 1)))
on duplicate key update
  ahead = greatest((@n := NOW) + ahead, at) - cast(@n as signed),
  grants = case
    when (@g := case
        when substr(grants, 1, 8) > STAMP(cast((@t := cast(@n as signed) + ahead) as signed)) then 0
        when substr(grants, 8 * (:burst - least(:most, :burst)) + 1, 8) <= STAMP(cast(@t as signed) - :window)
          then least(:most, :burst)
        when substr(grants, 8 * (:burst - :least) + 1, 8) <= STAMP(cast(@t as signed) - :window) then :least
        else 0 end) > 0
      then left(concat(repeat(STAMP(cast(@t as signed)), cast(@g as signed)
        + 0 * last_insert_id(4 * (cast(@g as signed) + LOG_TIME) + 1)), grants), 8 * :burst)
    when (@w := greatest(GRANT(substr(grants, 1, 8)), GRANT(substr(grants, 8 * (:burst - :least) + 1, 8)) + :window)
        - cast(@t as signed)) <= :ahead
      then left(concat(repeat(STAMP(cast(@t as signed) + cast(@w as signed)), :least
        + 0 * last_insert_id(4 * (cast(@w as signed) + LOG_TIME) + 2)), grants), 8 * :burst)
    else concat(grants, repeat('', 0 * last_insert_id(4 * cast(@w as signed))))
  end,
  at = if(cast(@g as signed) > 0 or cast(@w as signed) <= :ahead, cast(@t as signed), at))";

// A booked grant whose time has not come stays, because older grants were dropped when it was booked. All permits of
// one grant are next to each other. The same bytes may also occur across two of them: then the permits count as used.
constexpr std::string_view give_back_to_log_text = R"(
update weir_log set
  grants = concat(left(grants, instr(grants, STAMP(:since)) - 1),
                  substr(grants, instr(grants, STAMP(:since)) + 8 * :count))
where k = :key and :since <= NOW + ahead and mod(instr(grants, STAMP(:since)), 8) = 1
  and substr(grants, instr(grants, STAMP(:since)), 8 * :count) = repeat(STAMP(:since), :count))";

// Replaces each `what(...)` by `with`, with the argument in brackets instead of its `#`.
std::string expanded(std::string text, std::string_view what, std::string_view with) {
    for (auto at = text.find(what); at != text.npos; at = text.find(what, at + with.size())) {
        auto const first = at + what.size();
        auto last = first;
        for (int open = 0; open != 0 || last == first; ++last)
            open += text[last] == '(' ? 1 : text[last] == ')' ? -1 : 0;
        auto const argument = text.substr(first, last - first);
        text.replace(at, last - at, replaced(std::string(with), "#", argument));
    }
    return text;
}

statement_text with_macros(std::string_view named) {
    auto text = expanded(std::string(named), "STAMP", "unhex(lpad(hex(#), 16, '0'))");
    text = expanded(text, "GRANT", "ifnull(cast(conv(hex#, 16, 10) as signed), 0)");
    text = replaced(text, "LOG_TIME", "536870912 * mod(cast(@t as signed), 4294967296)");
    text = replaced(text, "TIME", "536870912 * mod(cast(@n as signed), 4294967296)");
    return statement_text(replaced(text, "NOW", now_text));
}

std::int64_t of_bucket(parameter p, policy::shared_bucket const& b) {
    switch (p) {
        case parameter::burst:
            return b.burst;
        case parameter::permit:
            return b.permit;
        case parameter::drained:
            return b.drained;
        case parameter::full:
            return b.full();
        case parameter::owed:
            return b.owed();
        case parameter::gap:  // the longest time for which no product overflows
            return (std::int64_t{1} << 62) / b.drained;
        case parameter::window:
            return b.window;
        default:
            throw std::logic_error("weir::mysql: a parameter without a value");
    }
}

}  // namespace

statement_text::statement_text(std::string_view named) {
    for (std::size_t at = 0; at < named.size();) {
        bool const is_name = named[at] == ':' && at + 1 < named.size() && named[at + 1] != '=';
        if (!is_name) {
            text_ += named[at++];
            continue;
        }
        auto const rest = named.substr(at + 1);
        auto const* const found =
            std::ranges::find_if(names, [&](auto const& n) { return rest.starts_with(n.first); });
        if (found == names.end())
            throw std::logic_error("weir::mysql: an unknown parameter");
        text_ += '?';
        parameters_.push_back(found->second);
        at += 1 + found->first.size();
    }
}

std::int64_t value_of(parameter p, policy::fed::question const& q) {
    switch (p) {
        case parameter::least:
            return q.min;
        case parameter::most:
            return q.max;
        case parameter::ahead:
            return std::min<std::int64_t>(q.ahead.count(), values - 1);
        default:
            return of_bucket(p, q.bucket);
    }
}

std::int64_t value_of(parameter p, policy::fed::give_back const& r) {
    switch (p) {
        case parameter::count:
            return r.count;
        case parameter::since:
            return r.since;
        default:
            return of_bucket(p, r.bucket);
    }
}

std::string_view create_table() noexcept {
    return "create table if not exists weir_bucket(k varbinary(255) primary key, at bigint not "
           "null, "
           "level bigint not null, permit bigint not null) engine=innodb";
}

statement_text const& take() {
    static auto const text = with_macros(take_text);
    return text;
}

statement_text const& give_back() {
    static auto const text = with_macros(give_back_text);
    return text;
}

std::string_view create_log_table() noexcept {
    return "create table if not exists weir_log(k varbinary(255) primary key, at bigint not null, "
           "ahead bigint not null, grants blob not null) engine=innodb";
}

statement_text const& take_of_log() {
    static auto const text = with_macros(take_of_log_text);
    return text;
}

statement_text const& give_back_to_log() {
    static auto const text = with_macros(give_back_to_log_text);
    return text;
}

std::string_view create_seats_table() noexcept {
    return "create table if not exists weir_seats(k varbinary(255) primary key, version bigint not "
           "null, state mediumblob not null) engine=innodb";
}

statement_text const& read_seats() {
    static auto const text =
        with_macros("select NOW, version, state from weir_seats where k = :key");
    return text;
}

statement_text const& make_seats() {  // without a fencing token and a holding
    static statement_text const text(
        "insert ignore into weir_seats(k, version, state) values(:key, 0, x'300a')");
    return text;
}

statement_text const& write_seats() {
    static statement_text const text(
        "update weir_seats set version = version + 1, state = :state where k = :key and version = "
        ":version");
    return text;
}

statement_text const& lock_interval() {
    static auto const text =
        with_macros("select at - NOW from weir_bucket where k = :key for update");
    return text;
}

statement_text const& make_interval() {
    static statement_text const text(
        "insert ignore into weir_bucket(k, at, level, permit) values(:key, 0, 0, 1)");
    return text;
}

statement_text const& stamp_interval() {
    static auto const text = with_macros("update weir_bucket set at = NOW + :every where k = :key");
    return text;
}

std::optional<std::int64_t> time_of(std::uint64_t id, std::int64_t about) noexcept {
    if (id % kinds == 0)
        return std::nullopt;
    auto const low = static_cast<std::uint32_t>(id / kinds / values);
    auto const ahead = static_cast<std::int32_t>(low - static_cast<std::uint32_t>(about));
    return about + ahead;
}

policy::fed::answer answer_of(std::uint64_t id, policy::fed::question const& q,
                              std::int64_t about) noexcept {
    using std::chrono::microseconds;
    auto const time = time_of(id, about);
    if (!time)
        return {.wait = microseconds(static_cast<std::int64_t>(id / kinds))};
    auto const value = static_cast<std::int64_t>(id / kinds % values);
    if (id % kinds == 1)
        return {.granted = value, .since = *time};
    return {.granted = q.min, .wait = microseconds(value), .since = *time + value};
}

}  // namespace weir::inline v0_2::mysql::detail
