-- key_give.lua - gives a key back, once for each lease, and tells the others how it went.
--
-- KEYS  1, 2 the key: its hash, its leases; 3, 4 its group, if any
-- ARGV  1 now in ms, 0: Redis TIME; 2 lease id; 3 1: something was sent; 4 tokens used, -1: not
--       known; 5 outcome: 0 answered, 1 failed, 2 says nothing; 6 cool for so many ms, 0: not;
--       7 the node's own breaker opened for so many ms, 0: not; 8 failures that open the breaker;
--       9 for how many ms; then 2 to 7 of other leases, in the order in which they ended
--
-- Reply, of the last lease: 1, or 0 if the lease had ended before: then only the cooldown counts, since the later of
-- two holds however often it is told. The breaker is that of src/lib/keypool/breaker.c, and leases of
-- an epoch before this one neither open nor close it.
-- include: key_quota.lua
local now = time_of(ARGV[1])
local failures, open_for = tonumber(ARGV[8]), tonumber(ARGV[9])
local ERRORS_GAIN, ERRORS_HIGH, RUN_LEAST = 1 / 16, 0.5, 2

local function threshold(errors)
    if errors < ERRORS_HIGH then
        return failures
    end
    return math.min(math.max(math.floor((failures + 1) / 2), RUN_LEAST), failures)
end

local function breaker_end(lease, ending)
    local has = redis.call('HMGET', KEYS[1], 'open', 'run', 'errors', 'epoch', 'try')
    local open, run, errors = tonumber(has[1]) or 0, tonumber(has[2]) or 0, tonumber(has[3]) or 0
    local epoch = tonumber(has[4]) or 0

    if has[5] == ending.id then
        redis.call('HDEL', KEYS[1], 'try')
    end
    if lease.epoch ~= epoch then
        return
    end
    if ending.failed then
        run = run + 1
        errors = errors + (1 - errors) * ERRORS_GAIN
        if open > 0 or run >= threshold(errors) then
            open, epoch = now + open_for, epoch + 1
        end
        if ending.opened_for > 0 and open < now + ending.opened_for then
            open, epoch = now + ending.opened_for, epoch + 1
        end
    elseif ending.answered then
        open, run, errors = 0, 0, errors - errors * ERRORS_GAIN
    else
        return
    end
    redis.call('HSET', KEYS[1], 'open', text(open), 'run', text(run), 'epoch', text(epoch),
               'errors', string.format('%.17g', errors))
end

local function give(quota, ending)
    local lease = lease_of(quota, ending.id)
    if lease then
        quota_give(quota, ending.id, lease, ending.used, ending.sent)
    end
    if ending.cool_for > 0 then
        quota.cool = math.max(quota.cool, now + ending.cool_for)
    end
    return lease
end

local function ending_at(i)
    return {id = ARGV[i], sent = ARGV[i + 1] == '1', used = tonumber(ARGV[i + 2]),
            answered = ARGV[i + 3] == '0', failed = ARGV[i + 3] == '1',
            cool_for = tonumber(ARGV[i + 4]), opened_for = tonumber(ARGV[i + 5])}
end

local endings = {ending_at(2)}
for i = 10, #ARGV, 6 do
    endings[#endings + 1] = ending_at(i)
end

local key, lease, alive = quota_open(KEYS[1], KEYS[2], now), nil, open_for
for _, ending in ipairs(endings) do
    lease = give(key, ending)
    if lease then
        breaker_end(lease, ending)
    end
    alive = math.max(alive, ending.opened_for)
end
quota_close(key, alive)
if KEYS[3] then
    local group = quota_open(KEYS[3], KEYS[4], now)
    for _, ending in ipairs(endings) do
        give(group, ending)
    end
    quota_close(group, 0)
end
return lease and 1 or 0
