-- settle.lua - replaces the cost of a take that was allowed by what was used.
--
-- KEYS     one for each limiter on the cost axis that was debited, then keys of others, see below
-- ARGV[1]  the time in ms; "*": that of the server
-- ARGV[2]  how long a state lives at least, in ms
-- ARGV[3]  once.lua
-- ARGV[4]  when it was debited
-- ARGV[5]  the cost that was debited
-- ARGV[6]  the cost that it really had
-- ARGV[7]  how many limiters there are
-- ARGV[8]  and so on, five for each limiter, as in take.lua, but for the place, which is a word for
--          its scope; then the scope of each further key
--
-- Replies with how many states have changed. Debt is owed even where a key has been forgotten
-- meanwhile. A call that was estimated at nothing and cost nothing leaves its mark only where its
-- scope is known: where one of its limiters, whose keys are all given then, has a state. So does
-- the store in memory, where the limiters of a scope are kept together.
--
-- include: limiters.lua
-- include: once.lua

local charged_at = tonumber(ARGV[4])
local cost, actual = tonumber(ARGV[5]), tonumber(ARGV[6])
local n = tonumber(ARGV[7])
local known, limiters, changed = {}, {}, 0

for i = 1, n do
    local l = limiter_at(i, 5 * i + 3)
    known[l.place] = known[l.place] or l.exists
    limiters[i] = l
end
for i = n + 1, n_keys do
    local scope = ARGV[5 * n + 7 + i - n]
    known[scope] = known[scope] or call('EXISTS', KEYS[i]) == 1
end
for _, l in ipairs(limiters) do
    if (actual > cost or known[l.place]) and l.kind.settle(l, charged_at, cost, actual) then
        save(l)
        changed = changed + 1
    end
end
return changed
