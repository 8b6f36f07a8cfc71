#include "statements.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace weir::inline v0_2::postgres::detail {
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
    std::pair{"window"sv, parameter::window},   std::pair{"version"sv, parameter::version},
    std::pair{"state"sv, parameter::state},
};

// An insert that finds the row locks it, and then evaluates the new values; each of them reads columns of `b`, so that
// the clock is read after the row has been locked. `denied` has a row if the last saved row denies the question: then
// nothing is locked or written. The transaction may see an older row there, but only one that was saved when the
// question had come. After a change of the rate the level is in permits of another size, and is converted, rounded up.
constexpr std::string_view take_text = R"(
with denied as (
  select r.due as wait
  from weir_bucket b
  cross join lateral (select NOW + 0 * b.at as n) c
  cross join lateral (select greatest(b.level - :drained * least(c.n - b.at, :gap), -:owed) as l) l
  cross join lateral (select (:full - l.l) / :permit as room, DUE as due) r
  where b.k = :key and b.permit = :permit and b.at <= c.n and r.room < :least and r.due > :ahead
), taken as (
  insert into weir_bucket as b (k, at, level, permit, granted, wait, asked, is_new)
  select :key, c.n, :permit * least(:most, :burst) - :owed, :permit, least(:most, :burst), 0, c.n, true
  from (select NOW as n SETTING) c
  where not exists (select from denied)
  on conflict (k) do update set (at, level, permit, granted, wait, asked, is_new) = (
    select case when v.g > 0 or b.at > c.n or b.permit <> :permit then c.n else b.at end,
           case when v.g > 0 then l.l + :permit * v.g
                when b.at > c.n or b.permit <> :permit then l.l else b.level end,
           :permit, v.g, v.w, c.n, false
    from (select NOW + 0 * b.at as n) c
    cross join lateral (select greatest(
        case when b.permit = :permit then b.level
             else least(div(greatest(b.level, 0)::numeric * :permit + b.permit - 1, b.permit), MOST)::bigint end
        - :drained * least(greatest(c.n - b.at, 0), :gap), -:owed) as l) l
    cross join lateral (select (:full - l.l) / :permit as room, DUE as due) r
    cross join lateral (select case when r.room >= :least then least(r.room, :most)
                                    when r.due <= :ahead then :least else 0 end as g,
                               case when r.room >= :least then 0 else r.due end as w) v)
  returning granted, wait, asked, is_new
)
select granted, wait, asked, is_new from taken union all select 0, wait, 0, false from denied)";

// The second comparison with the clock is in a part of the statement that is evaluated again with the locked row.
constexpr std::string_view give_back_text = R"(
update weir_bucket as b set (at, level) = (
  select c.n,
         case when l.l > :full then l.l
              else greatest(l.l - greatest(:count * :permit - :drained * least(c.n - :since, :gap), 0), -:owed) end
  from (select NOW + 0 * b.at as n SETTING) c
  cross join lateral (select greatest(b.level - :drained * least(greatest(c.n - b.at, 0), :gap), -:owed) as l) l)
where b.k = :key and b.permit = :permit and b.at <= NOW and :since <= NOW)";

// A log is the times of its grants, the last one first. `t` is the log's time, which continues when the clock is set
// back. `g` is the number of permits granted now: at most the larger, and at least the smaller requested number. `w` is
// otherwise the time until the smaller number can be granted.
constexpr std::string_view take_of_log_text = R"(
with denied as (
  select v.w as wait
  from weir_log b
  cross join lateral (select NOW + b.ahead as t) c
  cross join lateral (select GRANTED as g, WAIT as w) v
  where b.k = :key and b.at <= c.t and v.g = 0 and v.w > :ahead
), taken as (
  insert into weir_log as b (k, at, ahead, grants, granted, wait, asked, is_new)
  select :key, c.t, 0, array_fill(c.t, array[least(:most, :burst)::int]), least(:most, :burst), 0, c.t, true
  from (select NOW as t SETTING) c
  where not exists (select from denied)
  on conflict (k) do update set (at, ahead, grants, granted, wait, asked, is_new) = (
    select case when x.g > 0 then c.t else b.at end,
           c.t - c.n,
           case when x.g > 0 then (array_fill(c.t + x.w, array[x.g::int]) || b.grants)[1:(:burst)::int]
                else b.grants end,
           x.g, case when x.g > 0 then x.w else v.w end, c.t, false
    from (select s.n, greatest(s.n + b.ahead, b.at) as t from (select NOW + 0 * b.at as n) s) c
    cross join lateral (select GRANTED as g, WAIT as w) v
    cross join lateral (select case when v.g > 0 then v.g when v.w <= :ahead then :least else 0 end as g,
                               case when v.g > 0 then 0 else v.w end as w) x)
  returning granted, wait, asked, is_new
)
select granted, wait, asked, is_new from taken union all select 0, wait, 0, false from denied)";

constexpr std::string_view granted_text = R"(case
    when b.grants[1] > c.t then 0
    when coalesce(b.grants[(:burst - least(:most, :burst) + 1)::int] <= c.t - :window, true) then least(:most, :burst)
    when coalesce(b.grants[(:burst - :least + 1)::int] <= c.t - :window, true) then :least
    else 0 end)";
constexpr std::string_view wait_text =
    "greatest(coalesce(b.grants[1], 0), coalesce(b.grants[(:burst - :least + 1)::int] + :window, "
    "0)) - c.t";

// A booked grant whose time has not come stays, because older grants were dropped when it was booked. All permits of
// one grant are next to each other.
constexpr std::string_view give_back_to_log_text = R"(
update weir_log as b set grants = (
  select b.grants[1:p.first - 1] || b.grants[p.first + (:count)::int:]
  from (select array_position(b.grants, :since) as first SETTING) p)
where b.k = :key and :since <= NOW + b.ahead
  and b.grants[array_position(b.grants, :since):array_position(b.grants, :since) + (:count)::int - 1]
    = array_fill(:since, array[(:count)::int]))";

std::string replaced(std::string text, std::string_view what, std::string_view with) {
    for (auto at = text.find(what); at != text.npos; at = text.find(what, at + with.size()))
        text.replace(at, what.size(), with);
    return text;
}

// The setting holds until the end of the transaction, which is the statement.
constexpr std::string_view without_disk = ", set_config('synchronous_commit', 'off', true)";

statement_text with_macros(char const* name, std::string_view named,
                           std::string_view setting = {}) {
    auto text = replaced(std::string(named), "GRANTED", granted_text);
    text = replaced(std::move(text), " SETTING", setting);
    text = replaced(std::move(text), "WAIT", wait_text);
    text = replaced(std::move(text), "DUE",
                    "greatest(0, (:least * :permit - :full + l.l + :drained - 1) / :drained)");
    text = replaced(std::move(text), "MOST", "2305843009213693952");  // of a level
    text = replaced(std::move(text), "NOW",
                    "(extract(epoch from clock_timestamp()) * 1000000)::bigint");
    return {name, text};
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
            throw std::logic_error("weir::postgres: a parameter without a value");
    }
}

}  // namespace

statement_text::statement_text(char const* name, std::string_view named) : name_(name) {
    for (std::size_t at = 0; at < named.size();) {
        auto const rest = named.substr(at + 1);
        auto const* const found =
            named[at] == ':' ? std::ranges::find_if(
                                   names, [&](auto const& n) { return rest.starts_with(n.first); })
                             : names.end();
        if (found == names.end()) {
            text_ += named[at++];
            continue;
        }
        auto number = std::ranges::find(parameters_, found->second) - parameters_.begin();
        if (number == std::ssize(parameters_))
            parameters_.push_back(found->second);
        text_ += '$' + std::to_string(number + 1);
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
            return q.ahead.count();
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
    return "create table if not exists weir_bucket(k bytea primary key, at bigint not null, level "
           "bigint not null, permit bigint not null, granted bigint not null, wait bigint not "
           "null, asked bigint not null, is_new boolean not null) with (fillfactor = 50)";
}

statement_text const& take(saving when) {
    static auto const now = with_macros("weir_take", take_text);
    static auto const soon = with_macros("weir_take", take_text, without_disk);
    return when == saving::now ? now : soon;
}

statement_text const& give_back(saving when) {
    static auto const now = with_macros("weir_give_back", give_back_text);
    static auto const soon = with_macros("weir_give_back", give_back_text, without_disk);
    return when == saving::now ? now : soon;
}

std::string_view create_log_table() noexcept {
    return "create table if not exists weir_log(k bytea primary key, at bigint not null, ahead "
           "bigint not null, grants bigint[] not null, granted bigint not null, wait bigint not "
           "null, asked bigint not null, is_new boolean not null) with (fillfactor = 50)";
}

statement_text const& take_of_log(saving when) {
    static auto const now = with_macros("weir_take_of_log", take_of_log_text);
    static auto const soon = with_macros("weir_take_of_log", take_of_log_text, without_disk);
    return when == saving::now ? now : soon;
}

statement_text const& give_back_to_log(saving when) {
    static auto const now = with_macros("weir_give_back_to_log", give_back_to_log_text);
    static auto const soon =
        with_macros("weir_give_back_to_log", give_back_to_log_text, without_disk);
    return when == saving::now ? now : soon;
}

std::string_view create_seats_table() noexcept {
    return "create table if not exists weir_seats(k bytea primary key, version bigint not null, "
           "state text not null) with (fillfactor = 50)";
}

statement_text const& read_seats() {
    static auto const text =
        with_macros("weir_read_seats", "select NOW, version, state from weir_seats where k = :key");
    return text;
}

statement_text const& make_seats() {  // without a fencing token and a holding
    static statement_text const text(
        "weir_make_seats", "insert into weir_seats(k, version, state) values(:key, 0, E'0\\n') on "
                           "conflict do nothing");
    return text;
}

statement_text const& write_seats() {
    static statement_text const text(
        "weir_write_seats", "update weir_seats set version = version + 1, state = :state "
                            "where k = :key and version = :version");
    return text;
}

policy::fed::answer answer_of(std::int64_t granted, std::int64_t wait, std::int64_t time,
                              bool is_new) noexcept {
    if (granted == 0)
        return {.wait = std::chrono::microseconds(wait)};
    return {.granted = granted,
            .wait = std::chrono::microseconds(wait),
            .since = time + wait,
            .is_new = is_new};
}

}  // namespace weir::inline v0_2::postgres::detail
