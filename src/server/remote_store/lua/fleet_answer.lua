-- fleet_answer.lua - a gateway answers what others have asked.
--
-- KEYS  1 the number of the last question that each process has answered; 2 the answers
-- ARGV  1 the process; 2 the number; 3 its answer
--
-- Questions of one text share their answers: one that was made after a question answers all those
-- before it, too. What belongs to questions long ago is forgotten.
local KEPT_MS, KEPT = 5000, 64
local number = tonumber(ARGV[2])
local numbers = redis.call('HGETALL', KEYS[1])

for i = 1, #numbers, 2 do
    local its = tonumber(numbers[i + 1])
    if not its or its < number - KEPT or its > number + KEPT then
        redis.call('HDEL', KEYS[1], numbers[i])
        redis.call('HDEL', KEYS[2], numbers[i])
    end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
redis.call('PEXPIRE', KEYS[1], KEPT_MS)
redis.call('PEXPIRE', KEYS[2], KEPT_MS)
return 1
