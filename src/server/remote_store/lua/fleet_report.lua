-- fleet_report.lua - a gateway says which state it has, and learns the same of the others.
--
-- KEYS  1 reports, by gateway; 2 the epoch of a store that a gateway has seen go back, while it
--       does; 3 the head
-- ARGV  1 the gateway; 2 its report; 3 the epoch of a store that it does not follow: "-" of one that
--       is empty, "" if it follows it
--
-- Reply: Redis' time in ms; 1 if a gateway has seen this store go back; then name, when, report of
-- each.
-- One that has not been heard of for a day is forgotten.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %s', now, ARGV[2]))
redis.call('PEXPIRE', KEYS[1], 86400000)
if ARGV[3] ~= '' then
    redis.call('SET', KEYS[2], ARGV[3], 'PX', 5000)
end
local epoch = redis.call('HGET', KEYS[3], 'epoch') or '-'
local reply = {now, redis.call('GET', KEYS[2]) == epoch and 1 or 0}
local reports = redis.call('HGETALL', KEYS[1])
for i = 1, #reports, 2 do
    local at, report = string.match(reports[i + 1], '^(%d+) (.*)$')
    if not at or now - tonumber(at) > 86400000 then
        redis.call('HDEL', KEYS[1], reports[i])
    else
        reply[#reply + 1] = reports[i]
        reply[#reply + 1] = tonumber(at)
        reply[#reply + 1] = report
    end
end
return reply
