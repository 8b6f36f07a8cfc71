#include "statements.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace weir::mysql::detail {
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
    std::pair{"every"sv, parameter::every},
};

std::string replaced(std::string text, std::string_view what, std::string_view with) {
    for (auto at = text.find(what); at != text.npos; at = text.find(what, at + with.size()))
        text.replace(at, what.size(), with);
    return text;
}

// An answer is one number, since that is all that comes back of an insert: the identifier that would be that of the
// new row. Its last two bits say what it is: 0, denied, and above them how long to wait; 1, granted, and above them
// how many in 29 bits; 2, booked, and above them how long to wait in 29 bits; for 1 and 2, above all that, the
// last 32 bits of the time.
constexpr std::uint64_t kinds = 4;
constexpr std::uint64_t values = 1 << 29;

// User variables are assigned as expressions are evaluated, from left to right, and each time they are read they are
// cast, since the type of one is not known when the statement is prepared. `level` is assigned first, so what is said
// of `at` and `permit` there is what they were. Where the rate has been changed the level is counted in
// permits of another size, and converted, rounded up.
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

statement_text with_macros(std::string_view text) {
    auto const timed =
        replaced(std::string(text), "TIME", "536870912 * mod(cast(@n as signed), 4294967296)");
    return statement_text(replaced(timed, "NOW", now_text));
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
            return q.least;
        case parameter::most:
            return q.most;
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
    return {.granted = q.least, .wait = microseconds(value), .since = *time + value};
}

}  // namespace weir::mysql::detail
