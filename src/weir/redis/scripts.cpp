#include "scripts.hpp"

#include <weir/redis/error.hpp>
#include <weir/shared/seat_ledger.hpp>

#include "../check_option.hpp"
#include "seats_script.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <initializer_list>
#include <utility>

namespace weir::inline v0_2::redis::detail {
namespace {

using namespace std::string_view_literals;

// With the first line, a replica or a server without memory rejects the script before it runs, even if it would change
// nothing. The expiry is two milliseconds later, because the server rounds the time.
constexpr std::string_view head = R"(#!lua
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function lifetime(us)
    return string.format('%.0f', math.floor(us / 1000) + 2)
end
local function put(key, value, us)  -- one command, because a script may fail between two
    redis.call('SET', key, value, 'PX', lifetime(us))
end
)";

// A bucket is the text `at level permit`: the level in drops at that time, and the number of drops per permit. After a
// change of the rate the level is converted, rounded up, digit by digit, because the product may exceed the exact range
// of a double.
constexpr std::string_view bucket = R"(
local key = KEYS[1]
local drained, permit = tonumber(ARGV[1]), tonumber(ARGV[2])
local full, owed = tonumber(ARGV[3]), tonumber(ARGV[4])

local function converted(level, from)
    if level <= 0 then return 0 end
    local rest = math.fmod(level, from)
    local share, over = 0, 0  -- rest * permit = share * from + over
    for i = 52, 0, -1 do
        share, over = 2 * share, 2 * over
        if over >= from then share, over = share + 1, over - from end
        if math.floor(permit / 2 ^ i) % 2 == 1 then
            over = over + rest
            if over >= from then share, over = share + 1, over - from end
        end
    end
    if over > 0 then share = share + 1 end
    return math.min((level - rest) / from * permit + share, 2 ^ 52)
end

local function read()
    local text = redis.call('GET', key)
    if not text then return end
    local at, level, of = string.match(text, '^(%d+) (%-?%d+) (%d+)$')
    if not at then error(redis.error_reply('WRONGTYPE the key holds no bucket')) end
    return tonumber(at), tonumber(level), tonumber(of)
end

local function left(level, passed)
    local gone = drained * passed
    if gone >= level + owed then return -owed end
    return level - gone
end

local function write(level)
    put(key, string.format('%.0f %.0f %.0f', now, level, permit), (level + owed) / drained)
end
)";

// The whole part of a quotient is exact, because the dividend is below 2^53.
constexpr std::string_view take = R"(
local least, most, ahead = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local at, level, of = read()
local changed = false
if at then
    if of ~= permit then level, changed = converted(level, of), true end
    if at > now then at, changed = now, true end  -- the clock was set back
    level = left(level, now - at)
else
    level = -owed
end

local room = full - level
local granted = math.floor(room / permit)
local wait = 0
if granted >= least then
    granted = math.min(granted, most)
else
    wait = math.floor((least * permit - room + drained - 1) / drained)
    granted = wait <= ahead and least or 0
end
if granted > 0 or changed then write(level + granted * permit) end
return {granted, wait, now, at and 0 or 1}
)";

constexpr std::string_view give_back = R"(
local count, since = tonumber(ARGV[5]), tonumber(ARGV[6])
local at, level, of = read()
if not at or of ~= permit or at > now or since > now then return 0 end
level = left(level, now - at)
if level <= full then  -- otherwise other grants are booked after it
    local back = count * permit - drained * (now - since)
    level = math.max(level - math.max(back, 0), -owed)
end
write(level)
return 1
)";

// A log is the text `at ahead ` and the times of its grants, 8 bytes each, the last one first. It has its own time,
// which continues when the clock is set back: `ahead` is the difference to the clock, and `at` the log's time at the
// last write of the key.
constexpr std::string_view log = R"(
local key = KEYS[1]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local at, ahead, grants = 0, 0, ''
local text = redis.call('GET', key)
if text then
    at, ahead, grants = string.match(text, '^(%d+) (%d+) (.*)$')
    if not at or #grants % 8 ~= 0 then error(redis.error_reply('WRONGTYPE the key holds no log')) end
    at, ahead = tonumber(at), tonumber(ahead)
end
local log_time = math.max(now + ahead, at)

local function time_of(index)  -- 1 is the last grant; 0 counts as none
    if index < 1 or 8 * index > #grants then return 0 end
    return (struct.unpack('>I8', grants, 8 * index - 7))
end

local function later_than(time)  -- the number of later grants
    local few, many = 0, #grants / 8
    while few < many do
        local middle = math.ceil((few + many) / 2)
        if time_of(middle) > time then few = middle else many = middle - 1 end
    end
    return few
end

local function several(time, count)
    return string.rep(struct.pack('>I8', time), count)
end

local function write()
    put(key, string.format('%.0f %.0f ', log_time, log_time - now) .. grants,
        math.max(time_of(1) + window - log_time, 0))
end
)";

constexpr std::string_view log_take = R"(
local least, most, patience = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function turn(count)  -- the first time for `count` grants, not before another booked grant
    return math.max(log_time, time_of(1), time_of(limit - count + 1) + window)
end

local used = math.min(later_than(log_time - window), limit)
local granted = math.min(limit - used, most)
if granted < least or turn(granted) > log_time then granted = least end
local wait = turn(granted) - log_time
if wait > patience then granted = 0 end
if granted > 0 then
    grants = several(log_time + wait, granted) .. string.sub(grants, 1, 8 * math.min(used, limit - granted))
end
if granted > 0 or log_time - now ~= ahead then write() end
return {granted, wait, log_time, text and 0 or 1}
)";

// A booked grant whose time has not come stays, because older grants were dropped when it was booked.
constexpr std::string_view log_give_back = R"(
local count, since = tonumber(ARGV[3]), tonumber(ARGV[4])
local before = 8 * later_than(since)
if since > log_time or string.sub(grants, before + 1, before + 8 * count) ~= several(since, count) then return 0 end
grants = string.sub(grants, 1, before) .. string.sub(grants, before + 8 * count + 1)
write()
return 1
)";

// The user may lack the permission for INFO; then nothing is known about evictions.
constexpr std::string_view check = R"(#!lua
local patterns = {'^%d+ %-?%d+ %d+$', '^%d+ %d+ ', '^%d+\n'}
local names = {'bucket', 'log', 'seats'}
for i, key in ipairs(KEYS) do
    local text = redis.pcall('GET', key)
    local is_other = type(text) == 'table' and string.find(text.err, '^WRONGTYPE')
    if type(text) == 'table' and not is_other then return text end
    if is_other or text and not string.match(text, patterns[i]) then
        return redis.error_reply('WRONGTYPE the key ' .. key .. ' holds no ' .. names[i] .. '; use another name, or delete it')
    end
end
local said = redis.pcall('INFO', 'memory')
if type(said) ~= 'string' then return 1 end
local limit = tonumber(string.match(said, 'maxmemory:(%d+)') or '0')
local policy = string.match(said, 'maxmemory_policy:([%w-]+)') or 'noeviction'
if limit > 0 and policy ~= 'noeviction' then
    return redis.error_reply('EVICTS maxmemory-policy is ' .. policy .. '; set it to noeviction')
end
return 1
)";

struct parts {
    std::string_view suffix;  // of the key
    std::string_view common;
    std::string_view body;
};
constexpr std::array<parts, script_count> all{{
    {""sv, bucket, take},
    {""sv, bucket, give_back},
    {":seats"sv, ""sv, seats_hold},
    {":log"sv, log, log_take},
    {":log"sv, log, log_give_back},
}};

constexpr std::int64_t most_full = std::int64_t{1} << 51;

// Returns the arguments for a bucket or a log, followed by the arguments of the question.
std::vector<std::string> with_rule(policy::shared_bucket const& b,
                                   std::initializer_list<std::int64_t> more) {
    std::vector<std::string> words;
    words.reserve(8);
    auto const add = [&](std::initializer_list<std::int64_t> numbers) {
        for (auto const n : numbers)
            words.push_back(std::to_string(n));
    };
    if (b.window != 0)
        add({b.burst, b.window});
    else
        add({b.drained, b.permit, b.full(), b.owed()});
    add(more);
    return words;
}

template <class Answer>
Answer failure_of(reply& said) {
    return {.wait = std::chrono::ceil<std::chrono::microseconds>(said.again_in),
            .lost = said.lost,
            .kind = said.kind,
            .text = std::move(said.text)};
}

}  // namespace

std::string body_of(script which) {
    auto const& [_, common, body] = all[static_cast<std::size_t>(which)];
    return std::string(common) += body;
}

std::string const& text_of(script which) {
    static auto const texts = [] {
        std::array<std::string, script_count> made;
        for (std::size_t i = 0; i != script_count; ++i)
            made[i] = std::string(head) + body_of(static_cast<script>(i));
        return made;
    }();
    return texts[static_cast<std::size_t>(which)];
}

std::string_view check_text() noexcept {
    return check;
}

std::string key_of(script which, std::string_view name) {
    return std::string("{weir:").append(name).append("}").append(
        all[static_cast<std::size_t>(which)].suffix);
}

void validate(policy::shared_bucket const& b) {
    if (b.window != 0)
        return;  // a log counts no drops
    using weir::detail::check_option;
    check_option("redis", "rate, in microseconds of its lowest terms,", b.permit, 1, most_full);
    check_option("redis", "burst, at this rate,", b.burst, 1, most_full / b.permit);
}

std::vector<std::string> arguments_of(policy::fed::question const& q) {
    // As far ahead as the script can count.
    auto const ahead = std::min<std::int64_t>(q.ahead.count(), most_full / q.bucket.drained);
    return with_rule(q.bucket, {q.min, q.max, ahead});
}

std::vector<std::string> arguments_of(policy::fed::give_back const& what) {
    return with_rule(what.bucket, {what.count, what.since});
}

std::vector<std::string> arguments_of(policy::fed_seats::question const& q) {
    std::vector<std::string> words{
        std::to_string(q.seats), std::to_string(q.lease.count()),
        std::to_string(policy::fed_seats::confirm_of(q.lease).count()),
        weir::detail::seat_ledger::name_of(q.holder), std::to_string(q.number)};
    for (auto const n : {q.fence, q.known, q.keep, q.min, q.max})
        words.push_back(std::to_string(n));
    words.emplace_back(q.yields ? "1" : "0");
    words.push_back(weir::detail::seat_ledger::name_of_channel(q.channel));
    return words;
}

std::string channel_name(std::uint64_t channel) {
    return "weir:" + weir::detail::seat_ledger::name_of_channel(channel);
}

std::optional<policy::fed_seats::notice> notice_of(std::string_view text) noexcept {
    policy::fed_seats::notice made;
    auto const read = [&](auto& n, int base) {
        auto const [after, ec] = std::from_chars(text.data(), text.data() + text.size(), n, base);
        auto const length = static_cast<std::size_t>(after - text.data());
        if (ec != std::errc() || (length != text.size() && *after != ' '))
            return false;
        text.remove_prefix(std::min(length + 1, text.size()));
        return true;
    };
    bool const is_whole = read(made.holder[0], 16) && read(made.holder[1], 16) &&
                          read(made.number, 10) && read(made.held, 10) && read(made.fence, 10) &&
                          read(made.time, 10) && read(made.waits, 10) && text.empty();
    bool const is_valid = is_whole && made.held >= 0 && made.held <= max_amount &&
                          made.fence >= 0 && made.time >= 0 && made.waits >= 0;
    return is_valid ? std::optional(made) : std::nullopt;
}

policy::fed_seats::answer answer_of(reply& said, policy::fed_seats::question const& q) noexcept {
    if (said.error)
        return failure_of<policy::fed_seats::answer>(said);
    auto const& n = said.numbers;
    if (n.size() != 6 || n[0] < 0 || n[0] > std::max(q.max, q.seats) || n[1] < 0 || n[2] < 0 ||
        n[3] < 0 || n[4] < -1 || n[5] <= 0) {
        said.error = errc::protocol;
        return {.lost = true};
    }
    return {.held = n[0],
            .fence = n[1],
            .wait = std::chrono::microseconds(n[2]),
            .waits = n[3],
            .ahead = n[4],
            .time = n[5],
            .listens = q.channel != 0};
}

policy::fed::answer answer_of(reply& said, policy::fed::question const& q) noexcept {
    if (said.error)
        return failure_of<policy::fed::answer>(said);
    if (said.numbers.size() != 4 || said.numbers[0] < 0 || said.numbers[0] > q.max ||
        said.numbers[1] < 0 || said.numbers[2] <= 0) {
        said.error = errc::protocol;
        return {.lost = true};
    }
    auto const [granted, wait, now] = std::array{said.numbers[0], said.numbers[1], said.numbers[2]};
    return {.granted = granted,
            .wait = std::chrono::microseconds(wait),
            .since = granted != 0 ? now + wait : 0,
            .is_new = said.numbers[3] != 0};
}

}  // namespace weir::inline v0_2::redis::detail
