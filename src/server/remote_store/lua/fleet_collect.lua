-- fleet_collect.lua - the answers to a question that its asker does not have yet.
--
-- KEYS  1 the number of the last question that each process has answered; 2 the answers
-- ARGV  1 the question; then the processes whose answers it has
--
-- Reply: process, answer of each; some at a time.
local AT_ONCE = 16
local number = tonumber(ARGV[1])
local reply, has = {}, {}

for i = 2, #ARGV do
    has[ARGV[i]] = true
end
local numbers = redis.call('HGETALL', KEYS[1])
for i = 1, #numbers, 2 do
    local its = tonumber(numbers[i + 1])
    if its and its >= number and not has[numbers[i]] and #reply < 2 * AT_ONCE then
        reply[#reply + 1] = numbers[i]
        reply[#reply + 1] = redis.call('HGET', KEYS[2], numbers[i]) or ''
    end
end
return reply
