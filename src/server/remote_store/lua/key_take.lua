-- key_take.lua - takes a key of a provider for one attempt, if all nodes together leave room.
--
-- KEYS  1, 2 the key: its hash, its leases; 3 whether it is suspended; 4, 5 its group, if any
-- ARGV  1 now in ms, 0: Redis TIME; 2 lease id, '' to peek; 3 its time to live; 4 tokens;
--       5-7 rpm, tpm, concurrency of the key; 8-10 of the group
--
-- Reply: {0}: it is taken, now or before. {why, wait in ms, room in tokens or -1, 1 of the group}:
-- why is 1 cooling, 2 the breaker, 3 busy, 4 suspended. The order of checks is that of
-- src/lib/keypool/quota.c. A refusal takes nothing; a peek takes and writes nothing, and {0} says that
-- it would be taken.
-- include: key_quota.lua
local WHY = {cooling = 1, busy = 3}
local now, id, ttl, tokens = time_of(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local function limits_at(i)
    return {rpm = tonumber(ARGV[i]), tpm = tonumber(ARGV[i + 1]), concurrency = tonumber(ARGV[i + 2])}
end

local peeks = id == ''
local key = quota_open(KEYS[1], KEYS[2], now, peeks)
local group = KEYS[4] and quota_open(KEYS[4], KEYS[5], now, peeks)

-- Whatever is answered, what was moved on and dropped is kept.
local function answer(reply)
    quota_close(key, ttl)
    if group then
        quota_close(group, ttl)
    end
    return reply
end

if not peeks and lease_of(key, id) then
    return answer({0})
end

local suspended = redis.call('PTTL', KEYS[3])
if suspended > 0 then
    return answer({4, suspended, -1, 0})
end

local breaker = redis.call('HMGET', KEYS[1], 'open', 'epoch', 'try')
local open, epoch = tonumber(breaker[1]) or 0, tonumber(breaker[2]) or 0
if open > now then
    return answer({2, open - now, -1, 0})
end
if open > 0 and breaker[3] and lease_of(key, breaker[3]) then
    return answer({2, SOON, -1, 0})
end

local no = quota_refuses(key, limits_at(5), tokens)
if no then
    return answer({WHY[no[1]], no[2], no[3], 0})
end
no = group and quota_refuses(group, limits_at(8), tokens)
if no then
    return answer({WHY[no[1]], no[2], no[3], 1})
end

if peeks then
    return {0}
end
quota_take(key, id, tokens, epoch, ttl)
if open > 0 then
    redis.call('HSET', KEYS[1], 'try', id)
end
if group then
    quota_take(group, id, tokens, 0, ttl)
end
return answer({0})
