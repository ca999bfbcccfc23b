-- key_renew.lua - an attempt still runs: its lease of a key lives on.
--
-- KEYS  1, 2 the key: its hash, its leases; 3, 4 its group, if any
-- ARGV  1 now in ms, 0: Redis TIME; 2 lease id; 3 its time to live; 4 tokens
--
-- A lease that is not known any more (it ended while its node could not be heard, or the server
-- has lost its data) is put back: the call is in flight, whatever the books say. The windows are
-- not charged again: they have been, or nobody knows.
--
-- Reply: 1, or 0 if it had to be put back.
-- include: key_quota.lua
local now, id, ttl, tokens = time_of(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local function renew(hash, leases)
    local quota = quota_open(hash, leases, now)
    local known = lease_of(quota, id)
    if known then
        redis.call('ZADD', leases, text(now + ttl), id)
    else
        put_lease(quota, id, tokens, -1, tonumber(redis.call('HGET', hash, 'epoch')) or 0, ttl)
    end
    quota_close(quota, ttl)
    return known and 1 or 0
end

local known = renew(KEYS[1], KEYS[2])
if KEYS[3] then
    renew(KEYS[3], KEYS[4])
end
return known
