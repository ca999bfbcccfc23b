-- object_list.lua - an object joins those of its tenant, of which a list shows it.
--
-- KEYS  1 the objects of a tenant, a sorted set: object -> until when it is known, in ms
-- ARGV  1 the object, as text; 2 for how long it is known, in ms; 3 how many are kept at most
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
