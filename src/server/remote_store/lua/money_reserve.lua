-- money_reserve.lua - reserves money at all accounts of a root that are on a call's way, or at none.
--
--     KEYS  for each window its hash and its set
--     ARGV  now (ms; 0: Redis's), ledger, lease, ttl (ms), money, up_to, look (1: reserve nothing),
--           for each window: told by the ledger, how long to keep it (ms), the epoch that the process knows,
--           for each budget from the top: number of its window, amount, shadow
--     reply 1: reserved, 0: refused, -1: more is outstanding than can be counted, -2: the server has forgotten
--           something, and nothing is granted before all have told what they have (money_block.lua);
--           how much, contended, the budget that refuses (0: none), would_deny,
--           for each window: of the ledger before, settled, outstanding
--
-- The rules are those of src/lib/budget/bank.c, line by line. A lease that has its money already is
-- told so again.
-- include: money_window.lua

local now = time_of(ARGV[1])
local ledger, lease = ARGV[2], ARGV[3]
local ends_at = now + tonumber(ARGV[4])
local money = tonumber(ARGV[5])
local need = (ARGV[6] == '1' or money == 0) and 1 or money
local windows, forgot = {}, false
local at = 7

for i = 1, #KEYS / 2 do
    local told, keep, epoch = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
    windows[i] = window_read(KEYS[2 * i - 1], KEYS[2 * i], ledger, lease, told, keep, now)
    forgot = forgot or windows[i].is_quiet or (epoch > DOUBT and windows[i].epoch ~= epoch) or
                 (epoch == DOUBT and server_is_young())
    at = at + 3
end

local function hold_all(amount)
    for _, window in ipairs(windows) do
        window_hold(window, lease, amount, ends_at)
    end
    return amount
end

if windows[1].held and ARGV[7] ~= '1' then
    return reply_with({1, hold_all(windows[1].held), 0, 0, 0}, windows)
end

if forgot and ARGV[7] ~= '1' then
    return reply_with({-2, 0, 0, 0, 0}, windows)
end

local least, binding, contended, would_deny = MAX, 0, 0, 0
for budget = (#ARGV - at) / 3, 1, -1 do
    local window = windows[tonumber(ARGV[at + 3 * budget - 2])]
    local amount = tonumber(ARGV[at + 3 * budget - 1])
    local left = amount - window.settled - window.outstanding
    if ARGV[at + 3 * budget] == '1' then
        would_deny = would_deny + (left < need and 1 or 0)
    else
        least = math.min(least, left)
        local waits = amount - window.settled >= need
        local spent_below = binding > 0 and contended == 0
        if left < need and not (waits and spent_below) then
            binding, contended = budget, waits and 1 or 0
        end
    end
end

if least < need or ARGV[7] == '1' then
    return reply_with({least < need and 0 or 1, 0, contended, binding, would_deny}, windows)
end
money = math.min(money, least)
for _, window in ipairs(windows) do
    if window.outstanding + money > MAX then
        return reply_with({-1, 0, 0, 0, would_deny}, windows)
    end
end
return reply_with({1, hold_all(money), 0, 0, would_deny}, windows)
