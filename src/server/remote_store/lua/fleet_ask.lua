-- fleet_ask.lua - one gateway asks all others: they see it with their next look at the head.
--
-- KEYS  1 the head, whose field `asked` is the number of the last question; 2 questions, by number
-- ARGV  1 the process that asks; 2 what it asks
--
-- Reply: the number of the question; 0 if too many are open.
-- A question is open for three seconds.
local OPEN_MS, OPEN_MAX = 3000, 64
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local questions = redis.call('HGETALL', KEYS[2])
local open = 0

for i = 1, #questions, 2 do
    local at = tonumber(string.match(questions[i + 1], '^(%d+) '))
    if not at or at <= now - OPEN_MS or at > now then
        redis.call('HDEL', KEYS[2], questions[i])
    else
        open = open + 1
    end
end
if open >= OPEN_MAX then
    return 0
end
local number = redis.call('HINCRBY', KEYS[1], 'asked', 1)
redis.call('HSET', KEYS[2], string.format('%d', number), string.format('%d %s %s', now, ARGV[1], ARGV[2]))
redis.call('PEXPIRE', KEYS[2], OPEN_MS)
return number
