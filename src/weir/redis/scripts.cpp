#include "scripts.hpp"

#include <weir/redis/error.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <initializer_list>

namespace weir::redis::detail {
namespace {

using namespace std::string_view_literals;

// With the first line a replica, or a server without memory, refuses the script before it runs, even if it would
// change nothing. Two milliseconds more, since the server rounds the time.
constexpr std::string_view head = R"(#!lua
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function lifetime(us)
    return string.format('%.0f', math.floor(us / 1000) + 2)
end
local function expire(key, us)
    redis.call('PEXPIRE', key, lifetime(us))
end
local function put(key, value, us)  -- one command, since a script that fails between two has done the first
    redis.call('SET', key, value, 'PX', lifetime(us))
end
)";

// A bucket is the text `at level permit`: so many drops were in it at that time, of which so many are a permit.
// Where the rate has been changed the level is converted, rounded up, digit by digit, since the product may be larger
// than a double can hold exactly.
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

// The whole part of a quotient is exact, since what is divided is below 2^53.
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
return {granted, wait, now}
)";

constexpr std::string_view give_back = R"(
local count, since = tonumber(ARGV[5]), tonumber(ARGV[6])
local at, level, of = read()
if not at or of ~= permit or at > now or since > now then return 0 end
level = left(level, now - at)
if level <= full then  -- otherwise others are booked behind it
    local back = count * permit - drained * (now - since)
    level = math.max(level - math.max(back, 0), -owed)
end
write(level)
return 1
)";

// A log is a list of times, the newest first.
constexpr std::string_view log_take = R"(
local key = KEYS[1]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local least, most = tonumber(ARGV[3]), tonumber(ARGV[4])

local function at(index)
    return tonumber(redis.call('LINDEX', key, index) or nil)
end

local newest = at(0)
if newest and newest > now then  -- the clock was set back: the newest is now
    local times = redis.call('LRANGE', key, 0, -1)
    redis.call('DEL', key)
    for _, time in ipairs(times) do
        redis.call('RPUSH', key, string.format('%.0f', time - (newest - now)))
    end
    expire(key, window)
end
local oldest = at(-1)
while oldest and oldest <= now - window do
    redis.call('RPOP', key)
    oldest = at(-1)
end

local free = limit - redis.call('LLEN', key)
if free < least then
    return {0, at(limit - least) + window - now, now}
end
local granted = math.min(free, most)
local time = string.format('%.0f', now)
for i = 1, granted do
    redis.call('LPUSH', key, time)
end
expire(key, window)
return {granted, 0, now}
)";

constexpr std::string_view log_give_back = R"(
return redis.call('LREM', KEYS[1], ARGV[1], ARGV[2])
)";

// Seats are two keys: a hash of what each holder has, `+holder` to `count fence`, with `used` and `fence` of all; and a
// sorted set of the times at which they lose it.
constexpr std::string_view seats = R"(
local key, times = KEYS[1], KEYS[2]

local function whole(number)
    return string.format('%.0f', number)
end

local function held(holder)
    local text = redis.call('HGET', key, '+' .. holder)
    if not text then return end
    local count, fence = string.match(text, '^(%d+) (%d+)$')
    return tonumber(count), tonumber(fence)
end

local function leave(holder, count)
    redis.call('HINCRBY', key, 'used', whole(-count))
    redis.call('HDEL', key, '+' .. holder)
    redis.call('ZREM', times, holder)
end

local function keep(holder, count, fence, lease)
    redis.call('HSET', key, '+' .. holder, whole(count) .. ' ' .. whole(fence))
    redis.call('ZADD', times, whole(now + lease), holder)
    expire(key, 2 * lease)
    expire(times, 2 * lease)
end

local function tidy(lease)
    for _, holder in ipairs(redis.call('ZRANGEBYSCORE', times, '-inf', whole(now))) do
        leave(holder, (held(holder)))
    end
    -- The clock was set back: nobody keeps a seat for longer than a lease.
    for _, holder in ipairs(redis.call('ZRANGEBYSCORE', times, '(' .. whole(now + lease), '+inf')) do
        redis.call('ZADD', times, whole(now + lease), holder)
    end
end
)";

constexpr std::string_view seats_take = R"(
local all, lease, holder = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local least, most = tonumber(ARGV[4]), tonumber(ARGV[5])
tidy(lease)
local count, fence = held(holder)
if count then  -- it is asked again, since the answer was lost
    keep(holder, count, fence, lease)
    return {count, 0, now, fence}
end
local used = tonumber(redis.call('HGET', key, 'used') or 0)
local free = all - used
if free < least then
    local first = redis.call('ZRANGE', times, 0, 0, 'WITHSCORES')[2]
    return {0, first and first - now or 0, now, 0}
end
count = math.min(free, most)
fence = math.max(tonumber(redis.call('HGET', key, 'fence') or 0) + 1, now)
redis.call('HSET', key, 'used', whole(used + count), 'fence', whole(fence))
keep(holder, count, fence, lease)
return {count, 0, now, fence}
)";

constexpr std::string_view seats_keep = R"(
local lease = tonumber(ARGV[1])
tidy(lease)
local kept = {}
for i = 2, #ARGV, 2 do
    local holder, wanted = ARGV[i], tonumber(ARGV[i + 1])
    local count, fence = held(holder)
    kept[#kept + 1] = count and 1 or 0
    if count and wanted == 0 then
        leave(holder, count)
    elseif count then
        wanted = math.min(wanted, count)
        redis.call('HINCRBY', key, 'used', whole(wanted - count))
        keep(holder, wanted, fence, lease)
    end
end
return kept
)";

struct parts {
    std::string_view common;
    std::string_view body;
};
constexpr std::array<parts, script_count> all{{
    {bucket, take},
    {bucket, give_back},
    {""sv, log_take},
    {""sv, log_give_back},
    {seats, seats_take},
    {seats, seats_keep},
}};

constexpr std::int64_t most_full = std::int64_t{1} << 51;

std::vector<std::string> with_bucket(policy::shared_bucket const& b,
                                     std::initializer_list<std::int64_t> more) {
    std::vector<std::string> words;
    for (auto const n : {b.drained, b.permit, b.full(), b.owed()})
        words.push_back(std::to_string(n));
    for (auto const n : more)
        words.push_back(std::to_string(n));
    return words;
}

}  // namespace

std::string body_of(script which) {
    auto const& [common, body] = all[static_cast<std::size_t>(which)];
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

std::string key_of(std::string_view name) {
    return std::string("{weir:").append(name) += '}';
}

bool can_count(policy::shared_bucket const& b) noexcept {
    return b.drained <= most_full && b.permit <= most_full / b.burst;
}

std::vector<std::string> arguments_of(policy::fed::question const& q) {
    // As far ahead as can be counted.
    auto const ahead = std::min<std::int64_t>(q.ahead.count(), most_full / q.bucket.drained);
    return with_bucket(q.bucket, {q.least, q.most, ahead});
}

std::vector<std::string> arguments_of(policy::fed::give_back const& what) {
    return with_bucket(what.bucket, {what.count, what.since});
}

policy::fed::answer answer_of(reply& said, policy::fed::question const& q) noexcept {
    if (said.error)
        return {.lost = said.lost};
    if (said.numbers.size() != 3 || said.numbers[0] < 0 || said.numbers[0] > q.most ||
        said.numbers[1] < 0 || said.numbers[2] <= 0) {
        said.error = errc::protocol;
        return {.lost = true};
    }
    auto const [granted, wait, now] = std::array{said.numbers[0], said.numbers[1], said.numbers[2]};
    return {.granted = granted,
            .wait = std::chrono::microseconds(wait),
            .since = granted != 0 ? now + wait : 0};
}

}  // namespace weir::redis::detail
