-- take.lua - rate and cost of a call, asked and debited in one step: the fused script.
--
-- KEYS     one for each limiter of each scope, all of one slot
-- ARGV[1]  the time in ms; "*": that of the server
-- ARGV[2]  how long a state lives at least, in ms
-- ARGV[3]  "atomic": all limiters are debited, or on a refusal none
--          "per-axis": rate is asked and debited; only if it allows is cost; else cost is looked
--          at all the same, for 4 and 5 of the reply alone. If cost refuses, rate is looked at once
--          more after its debit, for 5 alone: the call will need it again
-- ARGV[4]  the cost, for limiters on the cost axis; those on the rate axis take 1
-- ARGV[5]  "t": the time is wanted; "p": only looked at, nothing is debited; "tp"; or ""
-- ARGV[6]  and so on, five for each limiter: strategy, place, three numbers (limiters.lua)
--          place: "rate", "cost", and in shadow "rate-shadow", "cost-shadow"
--
-- Reply, integers:
--    1 to 5    allowed, limit, remaining, reset_at, retry_after_ms of all together
--    6 to 9    allowed, remaining, reset_at, retry_after_ms of the first limiter on the rate axis
--   10 to 13   the same of the first on the cost axis
--   and four for each further limiter: those on the rate axis in the order of their keys, then
--   those on the cost axis. -1 four times: there is no such limiter, or it was not asked, or only
--   looked at for when the call may pass.
--   With "t", one more: the time of the decision.
--
-- A limiter that was debited is reported with what the debit left, one that was not as it stands
-- (src/lib/store/claim.c). One in shadow that refuses is reported so, and is not a part of 1 to 5: it
-- refuses nothing, and is debited only where it allows. Refusals, and what costs nothing, write
-- nothing, but for the first after a limit has changed: from then on what was taken is made good at
-- the new rate.
--
-- include: limiters.lua

local per_axis = ARGV[3] == 'per-axis'
local cost = tonumber(ARGV[4])
local pays = not string.find(ARGV[5], 'p', 1, true)
local rates, costs = {}, {}

for i = 1, #KEYS do
    local l = limiter_at(i, 5 * i + 1)
    if l.place == 'rate' or l.place == 'rate-shadow' then
        l.units = 1
        rates[#rates + 1] = l
    else
        l.units = cost
        costs[#costs + 1] = l
    end
    l.shadow = l.place == 'rate-shadow' or l.place == 'cost-shadow'
end

local function ask(l, units)
    l.allowed, l.remaining, l.reset_at, l.retry_after = l.kind.peek(l, units)
end

-- Whether none refuses.
local function look(list)
    local fine = true
    for _, l in ipairs(list) do
        ask(l, l.units)
        if l.carried and pays then
            save(l)
        end
        fine = fine and (l.allowed or l.shadow)
    end
    return fine
end

-- The call is refused: who would have allowed it is not debited, and says what is there.
local function look_again(list)
    for _, l in ipairs(list) do
        if l.allowed then
            ask(l, 0)
        end
    end
end

local function debit(list)
    for _, l in ipairs(list) do
        if l.allowed and l.units > 0 then
            l.kind.take(l, l.units)
            save(l)
        end
    end
end

local rate_fine, cost_fine = look(rates), look(costs)
local cost_asked = rate_fine or not per_axis

-- All looking comes before the first debit.
if per_axis then
    if not rate_fine then
        look_again(rates)
        look_again(costs)
    elseif not cost_fine then
        look_again(costs)
    end
elseif not (rate_fine and cost_fine) then
    look_again(rates)
    look_again(costs)
end
if pays and rate_fine and (per_axis or cost_fine) then
    debit(rates)
end
if pays and rate_fine and cost_fine then
    debit(costs)
end

local reply = {1, MAX, MAX, 0, 0}

if pays and per_axis and rate_fine and not cost_fine then
    for _, l in ipairs(rates) do
        if not l.shadow then
            local _, _, _, again = l.kind.peek(l, l.units)
            reply[5] = max(reply[5], again)
        end
    end
end

-- What was looked at for its hints is no part of 1 to 3.
local function combine(list, asked)
    for _, l in ipairs(list) do
        if l.allowed or not l.shadow then
            if asked then
                reply[1] = l.allowed and reply[1] or 0
                reply[2] = min(reply[2], l.limit)
                reply[3] = min(reply[3], l.remaining)
            end
            reply[4] = max(reply[4], l.reset_at)
            reply[5] = max(reply[5], l.retry_after)
        end
    end
end

local function add(l, asked)
    local n = #reply
    if l and asked then
        reply[n + 1] = l.allowed and 1 or 0
        reply[n + 2], reply[n + 3], reply[n + 4] = l.remaining, l.reset_at, l.retry_after
    else
        reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = -1, -1, -1, -1
    end
end

combine(rates, true)
combine(costs, cost_asked)
add(rates[1], true)
add(costs[1], cost_asked)
for i = 2, #rates do
    add(rates[i], true)
end
for i = 2, #costs do
    add(costs[i], cost_asked)
end
if string.find(ARGV[5], 't', 1, true) then
    reply[#reply + 1] = now
end
return reply
