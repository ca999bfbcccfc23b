-- object_put.lua - somebody has made an object at a provider: it is theirs, unless it was known.
--
-- KEYS  1 the record of the object, a hash: provider -> owner
-- ARGV  1 the provider; 2 the owner, as text; 3 for how long it is known, in ms
--
-- Reply: 1, or 0: somebody else has it at that provider already.
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0
        and redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
    return 0
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 1
