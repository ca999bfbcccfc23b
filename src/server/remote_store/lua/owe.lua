-- owe.lua - charges the debt of a call that was admitted elsewhere, whatever is left here.
--
-- KEYS     one for each limiter
-- ARGV[1]  the time in ms; "*": that of the server
-- ARGV[2]  how long a state lives at least, in ms
-- ARGV[3]  once.lua
-- ARGV[4]  how long ago it was admitted, in ms: where there are windows, it is charged to that one
-- ARGV[5]  the cost, for limiters on the cost axis; those on the rate axis take 1
-- ARGV[6]  and so on, five for each limiter, as in take.lua
--
-- Replies with how many states have changed.
--
-- include: limiters.lua
-- include: once.lua

local at = max(now - tonumber(ARGV[4]), 0)
local cost = tonumber(ARGV[5])
local changed = 0

for i = 1, n_keys do
    local l = limiter_at(i, 5 * i + 1)
    if l.kind.settle(l, at, 0, l.place == 'rate' and 1 or cost) then
        save(l)
        changed = changed + 1
    end
end
return changed
