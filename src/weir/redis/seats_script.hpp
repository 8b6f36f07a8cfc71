#pragma once

#include <string_view>

namespace weir::inline v0_2::redis::detail {

// Seats are the text of a `weir::detail::seat_ledger`, which documents the rules. The key is kept a day longer than
// needed, so that fencing tokens grow even if the clock is set back. A message is the text `who number held fence time
// waits`, without seats if another holder has begun to wait. The user may lack the permission to publish it; then
// holders poll.
inline constexpr std::string_view seats_hold = R"(
local key, holder, channel, yields = KEYS[1], ARGV[4], ARGV[12], ARGV[11] == '1'
local all, lease, confirm = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local number, fence, known = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local keep, least, most = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local nowhere = '0000000000000000'

local before = redis.call('GET', key)
local last, line, mine = 0, {}, nil
if before then
    local head, rest = string.match(before, '^(%d+)\n(.*)$')
    if not head then error(redis.error_reply('WRONGTYPE the key holds no seats')) end
    last = tonumber(head)
    local size = 0
    local pattern = '((%x+ %x+) (%d+) (%d+) (%d+) (%d+) (%d+) (%x+)\n)'
    for whole, who, held, of, till, asked, wants, ch in string.gmatch(rest, pattern) do
        size = size + #whole
        local one = {who = who, held = tonumber(held), fence = tonumber(of), asked = tonumber(asked),
            wants = tonumber(wants), channel = ch}
        one.till = math.min(tonumber(till), now + lease)  -- the clock was set back
        if tonumber(till) > now then
            line[#line + 1] = one
            if who == holder then mine = one end
        end
    end
    if size ~= #rest then error(redis.error_reply('WRONGTYPE the key holds no seats')) end
end

local was
if mine then
    was = {held = mine.held, till = mine.till, asked = mine.asked, wants = mine.wants, channel = mine.channel}
end
local old = mine and number <= mine.asked
if not old then
    local is_known = mine and (fence == mine.fence or fence == 0 and mine.fence > known)
    if mine and not is_known then mine.held, mine.fence = 0, 0 end
    if not mine then
        mine = {who = holder, held = 0, fence = 0, wants = 0, till = now + lease}
        line[#line + 1] = mine
    end
    mine.asked, mine.channel = number, channel
    last = math.max(last, known)
    if fence ~= 0 and not is_known then  -- it was lost
        mine.wants, most = 0, 0
    else
        local gives_up = yields or least == 0 or least > mine.held
        mine.held = math.min(mine.held, gives_up and keep or most)
        local lacks = least > mine.held
        if lacks and mine.wants == 0 then
            for i, one in ipairs(line) do
                if one == mine then table.remove(line, i) break end
            end
            line[#line + 1] = mine
        end
        mine.wants = lacks and least or 0
    end
end

local function renew_fence(one)
    if one.fence == 0 then
        last = math.max(last + 1, now)
        one.fence = last
    end
end

local free, waits, ahead = all, 0, -1
for _, one in ipairs(line) do free = free - one.held end
for _, one in ipairs(line) do
    if one.wants > 0 then
        if waits > 0 or one.wants - one.held > free then
            if one == mine then ahead = waits end
            waits = waits + 1
        else
            free = free - (one.wants - one.held)
            if one ~= mine and one.held == 0 then one.till = math.min(one.till, now + confirm) end
            one.held, one.wants = one.wants, 0
            renew_fence(one)
            one.told = one ~= mine
        end
    end
end

if not old and waits == 0 and mine.held >= least and mine.held < most then
    mine.held = math.max(mine.held, math.min(most, mine.held + math.max(free, 0)))
    if mine.held > 0 then renew_fence(mine) end
end
if was and was.wants > 0 and was.wants == mine.wants and was.held == 0 and mine.held == 0
        and was.channel == mine.channel and was.till > now + math.floor(lease / 2) then
    mine.asked = was.asked
elseif not old then
    mine.till = now + lease
end

local text, first = {string.format('%.0f\n', last)}, nil
for _, one in ipairs(line) do
    if one.held == 0 then one.fence = 0 end
    if one.held > 0 and one ~= mine then first = math.min(first or one.till, one.till) end
    if one.held + one.wants > 0 then
        text[#text + 1] = string.format('%s %.0f %.0f %.0f %.0f %.0f %s\n', one.who, one.held, one.fence, one.till,
            one.asked, one.wants, one.channel)
    end
end
text = table.concat(text)
if text ~= before then put(key, text, lease + 86400000000) end
for _, one in ipairs(line) do
    if one.channel ~= nowhere and one.told then
        redis.pcall('PUBLISH', 'weir:' .. one.channel,
            string.format('%s %.0f %.0f %.0f %.0f %.0f', one.who, one.asked, one.held, one.fence, now, waits))
    elseif one.channel ~= nowhere and ahead >= 0 and one.held > 0 and one ~= mine then
        redis.pcall('PUBLISH', 'weir:' .. one.channel, string.format('%s 0 0 0 %.0f %.0f', one.who, now, waits))
    end
end
local wait = ahead == 0 and first and first - now or 0
return {mine.held, mine.held > 0 and mine.fence or 0, wait, ahead >= 0 and waits - 1 or waits, ahead, now}
)";

}  // namespace weir::inline v0_2::redis::detail
