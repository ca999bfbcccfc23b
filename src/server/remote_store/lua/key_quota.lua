-- key_quota.lua - what is in use of a provider's key, or of a group of keys, by all nodes.
--
-- What src/lib/keypool/{quota,minute,breaker}.c keep for one node, in a hash:
--
--     head         the second up to which the windows have been moved
--     calls, tokens, c<slot>, t<slot>   of the last 61 s: the sums, and each second's, at its number
--                  mod 64; the second at the far end counts whole
--     n, held      calls and tokens in flight, all leases together
--     L<lease>     of each lease: tokens, second, epoch. Second -1: it is not in the windows
--     cool         ms until which the provider wants to hear nothing
--     open, run, errors, epoch, try     of a key: the breaker; `try` is the lease of the one call
--                  of the half-open state
--
-- and, beside it, a sorted set of its leases by the ms at which they end. Each script first drops
-- leases that have ended: their node died, or could not be heard. What they charged stays charged.
--
-- A quota that is peeked at is computed in the same way, and nothing of it is written.
--
-- All numbers are integers but `errors`. Nothing is read from the clock but `now`.
local SPAN, SLOTS = 61, 64

-- Longer than any window, so that a run of failures is not forgotten by a key that is seldom used.
local KEEP = 600000

local function text(number)
    return string.format('%.0f', number)
end

local function time_of(given)
    if given ~= '0' then
        return tonumber(given)
    end
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function lease_of(quota, id)
    if quota.dropped[id] then
        return nil
    end
    local record = redis.call('HGET', quota.hash, 'L' .. id)
    if not record then
        return nil
    end
    local tokens, second, epoch = record:match('^(%d+) (%-?%d+) (%d+)$')
    return {tokens = tonumber(tokens), second = tonumber(second), epoch = tonumber(epoch)}
end

local function drop_lease(quota, id, lease)
    if quota.peeks then
        quota.dropped[id] = true
    else
        redis.call('ZREM', quota.leases, id)
        redis.call('HDEL', quota.hash, 'L' .. id)
    end
    quota.n = math.max(quota.n - 1, 0)
    quota.held = math.max(quota.held - lease.tokens, 0)
end

local function drop_ended(quota)
    local ended = redis.call('ZRANGEBYSCORE', quota.leases, '-inf', quota.now, 'LIMIT', 0, 1000)
    for i = 1, #ended do
        local lease = lease_of(quota, ended[i])
        drop_lease(quota, ended[i], lease or {tokens = 0})
    end
end

-- Forgets the seconds that have left the window. A clock that went back stands still.
local function roll(quota)
    if quota.second <= quota.head then
        quota.second = quota.head
        return
    end
    local fields = {}
    for gone = math.max(quota.head - SPAN + 1, 0), math.min(quota.second - SPAN, quota.head) do
        fields[#fields + 1] = 'c' .. gone % SLOTS
        fields[#fields + 1] = 't' .. gone % SLOTS
    end
    quota.head = quota.second
    if #fields == 0 then
        return
    end
    local counts = redis.call('HMGET', quota.hash, unpack(fields))
    for i = 1, #fields, 2 do
        quota.calls = math.max(quota.calls - (tonumber(counts[i]) or 0), 0)
        quota.tokens = math.max(quota.tokens - (tonumber(counts[i + 1]) or 0), 0)
    end
    if not quota.peeks then
        redis.call('HDEL', quota.hash, unpack(fields))
    end
end

local function quota_open(hash, leases, now, peeks)
    local has = redis.call('HMGET', hash, 'head', 'calls', 'tokens', 'n', 'held', 'cool')
    local second = math.floor(now / 1000)
    local quota = {hash = hash, leases = leases, now = now, second = second,
                   head = tonumber(has[1]) or second, calls = tonumber(has[2]) or 0,
                   tokens = tonumber(has[3]) or 0, n = tonumber(has[4]) or 0,
                   held = tonumber(has[5]) or 0, cool = tonumber(has[6]) or 0,
                   peeks = peeks, dropped = {}}
    quota.last = quota.head
    roll(quota)
    drop_ended(quota)
    return quota
end

-- Writes what has changed; `alive` is how long somebody needs it at least, in ms.
local function quota_close(quota, alive)
    if quota.peeks then
        return
    end
    redis.call('HSET', quota.hash, 'head', text(quota.head), 'calls', text(quota.calls),
               'tokens', text(quota.tokens), 'n', text(quota.n), 'held', text(quota.held),
               'cool', text(quota.cool))
    local left = math.max(KEEP, alive, quota.cool - quota.now)
    redis.call('PEXPIRE', quota.hash, text(left))
    redis.call('PEXPIRE', quota.leases, text(left))
end

local function add(quota, kind, second, units)
    if units ~= 0 then
        redis.call('HINCRBY', quota.hash, kind .. second % SLOTS, text(units))
    end
end

-- Until so many more are within the limit, in ms, if nothing else is charged.
local function window_wait(quota, kind, sum, limit, need)
    local fields, first = {}, quota.head - SPAN + 1
    for second = first, quota.head do
        fields[#fields + 1] = kind .. second % SLOTS
    end
    local counts = redis.call('HMGET', quota.hash, unpack(fields))
    for i = 1, SPAN do
        -- After `last`, the place of a second may still have what stood there before.
        if not quota.peeks or first + i - 1 <= quota.last then
            sum = sum - (tonumber(counts[i]) or 0)
        end
        if sum <= limit - need then
            return math.max((first + i - 1 + SPAN) * 1000 - quota.now, 1)
        end
    end
    return SPAN * 1000
end

-- Null: a call of so many tokens fits. Else why not, for how many ms, and how many tokens would.
-- A limit of 0 is none. When a call in flight ends nobody knows: it is to be asked again soon.
local SOON = 100
local function quota_refuses(quota, limits, tokens)
    if quota.cool > quota.now then
        return {'cooling', quota.cool - quota.now, -1}
    end
    if limits.concurrency > 0 and quota.n >= limits.concurrency then
        return {'busy', SOON, -1}
    end
    if limits.rpm > 0 and quota.calls >= limits.rpm then
        return {'busy', window_wait(quota, 'c', quota.calls, limits.rpm, 1), -1}
    end
    if limits.tpm == 0 then
        return nil
    end
    local room = math.max(limits.tpm - math.max(quota.tokens, quota.held), -1)
    if tokens <= room then
        return nil
    end
    local wait = SOON
    if quota.tokens > limits.tpm - tokens then
        wait = math.max(wait, window_wait(quota, 't', quota.tokens, limits.tpm, tokens))
    end
    return {'busy', wait, room}
end

local function put_lease(quota, id, tokens, second, epoch, ttl)
    redis.call('HSET', quota.hash, 'L' .. id,
               text(tokens) .. ' ' .. text(second) .. ' ' .. text(epoch))
    redis.call('ZADD', quota.leases, text(quota.now + ttl), id)
    quota.n = quota.n + 1
    quota.held = quota.held + tokens
end

local function quota_take(quota, id, tokens, epoch, ttl)
    put_lease(quota, id, tokens, quota.head, epoch, ttl)
    quota.calls = quota.calls + 1
    quota.tokens = quota.tokens + tokens
    add(quota, 'c', quota.head, 1)
    add(quota, 't', quota.head, tokens)
end

-- In the second in which it was charged. `used` -1: not known, the estimate stands.
local function quota_give(quota, id, lease, used, sent)
    drop_lease(quota, id, lease)
    if lease.second < 0 or lease.second <= quota.head - SPAN then
        return
    end
    if not sent then
        used = 0
        quota.calls = math.max(quota.calls - 1, 0)
        add(quota, 'c', lease.second, -1)
    end
    if used >= 0 then
        quota.tokens = math.max(quota.tokens + used - lease.tokens, 0)
        add(quota, 't', lease.second, used - lease.tokens)
    end
end
