-- node_beat.lua - a node says that it lives, and learns how many do.
--
-- KEYS  1 the sorted set of nodes, by the ms at which each is gone
-- ARGV  1 its id; 2 for how long it counts without another beat, in ms
--
-- Reply: live nodes; how many of them come before this one in the order of ids; Redis' time in ms; 1:
-- this one was known before.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('ZSCORE', KEYS[1], ARGV[1])

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])

local nodes = redis.call('ZRANGE', KEYS[1], 0, -1)
local before = 0
for i = 1, #nodes do
    if nodes[i] < ARGV[1] then
        before = before + 1
    end
end
return {#nodes, before, now, known and 1 or 0}
