-- refund.lua - undoes a take that was allowed: its limiters get back what is still owed.
--
-- KEYS     one for each limiter that was debited
-- ARGV[1]  the time in ms; "*": that of the server
-- ARGV[2]  how long a state lives at least, in ms
-- ARGV[3]  once.lua
-- ARGV[4]  when it was debited
-- ARGV[5]  the cost that was debited, of limiters on the cost axis
-- ARGV[6]  and so on, five for each limiter, as in take.lua
--
-- Replies with how many states have changed. A key that is not there has been fresh since:
-- nothing of the charge was owed.
--
-- include: limiters.lua
-- include: once.lua

local charged_at = tonumber(ARGV[4])
local cost = tonumber(ARGV[5])
local changed = 0

for i = 1, n_keys do
    local l = limiter_at(i, 5 * i + 1)
    local on_rate = l.place == 'rate' or l.place == 'rate-shadow'
    local units = on_rate and 1 or cost
    if l.exists and l.kind.refund(l, charged_at, units, units) then
        save(l)
        changed = changed + 1
    end
end
return changed
