-- block.lua - charges limits in advance, in blocks of units that a node then spends by itself.
--
-- The states are those of take.lua, so nodes that lease and nodes that ask for each call share
-- them. What a block may be spent on is bounded by what is charged for it here:
--
--   fixed_window, token_budget    it is spent within the window in which it was charged
--   gcra, token_bucket            it is spent within `life` ms, and so it is charged as if all of
--                                 it were spent at the end of these: a state that would have been
--                                 full by then counts as full only then. With a = the begin of any
--                                 span of d ms in which units were spent, whatever was charged for
--                                 them began at a or later, and ended within the burst: so no more
--                                 than burst + rate x d were.
--   sliding_window, sliding_log   the caller has made the window longer by `life`
--
-- KEYS     one for each limiter, all of one slot; and one for what was said last to who asks
-- ARGV[1]  the time in ms; "*": that of the server
-- ARGV[2]  how long a state lives at least, in ms
-- ARGV[3]  how many share what is left
-- ARGV[4]  the number of this command, larger than those before: sent again, because a connection
--          broke before its reply came, it does nothing, and is answered as before; one that was
--          sent again, and comes after its successor, does nothing; "": there is no such key
-- ARGV[5]  and so on, thirteen for each limiter: the five of limiters.lua, and
--          life      of a block, in ms; 0: until the window ends
--          want      units that would be good to have
--          need      units that calls wait for, all together
--          least     what the smallest of these calls needs; with less, nothing is granted
--          back, at  units to be given back, and when they were charged
--          debt, at  units to be charged whatever there is, and in which moment's window
--
-- Of what is left nobody gets more than his share, unless he needs it: else the first who asks
-- would have it all. The meter token_budget grants what is needed whole as long as it is not spent.
--
-- Reply, integers: the time; then for each limiter four: granted, left for others to lease,
-- reset_at, and if `least` was not granted, after how many ms it may be; else 0.
--
-- include: limiters.lua

local SAID_FOR = 600000
local nodes = tonumber(ARGV[3])
local n_keys = #KEYS

if ARGV[4] ~= '' then
    local said = call('GET', KEYS[n_keys])
    if said then
        local number, reply = cmsgpack.unpack(said)
        if number >= tonumber(ARGV[4]) then
            return number == tonumber(ARGV[4]) and reply or {}
        end
    end
    n_keys = n_keys - 1
end

-- What can be leased now, of each kind; and leasing it.
local room = {}
local lease = {}

local function gcra_base(l)
    return max(l.tat, now + l.life)
end

function room.gcra(l)
    local units = num_floor((now + l.tolerance - gcra_base(l)) / l.interval)
    while units > 0 and tat_after(l, gcra_base(l), units) - l.tolerance > now do
        units = units - 1
    end
    return units
end

-- It counts as spent at the end of its life, and so does the deficit before it.
function lease.gcra(l, units)
    if l.settled then
        minima.push(l, now, gcra_base(l) - (now + l.life))
    end
    l.tat = tat_after(l, gcra_base(l), units)
end

local function bucket_level(l)
    return min(level_at(l, now), l.limit - l.life * l.rise)
end

function room.token_bucket(l)
    return num_floor(bucket_level(l))
end

function lease.token_bucket(l, units)
    if l.settled then
        minima.push(l, max(now, l.last), l.limit - l.life * l.rise - bucket_level(l))
    end
    set_level(l, bucket_level(l) - units)
end

local function peek_room(l)
    local _, remaining = l.kind.peek(l, 0)
    return remaining
end

local function take(l, units)
    l.kind.take(l, units)
end

for _, kind in ipairs({'fixed_window', 'token_budget', 'sliding_window', 'sliding_log'}) do
    room[kind], lease[kind] = peek_room, take
end

local function grant(l, strategy, want, need, least)
    local left = room[strategy](l)
    local share = max(need, floor(left / nodes), floor(l.limit / (16 * nodes)))
    if strategy == 'sliding_window' or strategy == 'sliding_log' then
        share = left -- what is wanted is for a moment, and what nobody takes is lost
    end
    local units = min(want, share, left)
    if strategy == 'token_budget' and left > 0 then
        units = max(units, need)
    end
    if units < least or units <= 0 then
        return 0, left
    end
    lease[strategy](l, units)
    return units, max(left - units, 0)
end

local reply = {now}
for i = 1, n_keys do
    local at = 13 * i - 8
    local l = limiter_at(i, at)
    l.life = tonumber(ARGV[at + 5])
    local want, need, least = tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7]), tonumber(ARGV[at + 8])
    local back, debt = tonumber(ARGV[at + 9]), tonumber(ARGV[at + 11])
    local changed = false

    if back > 0 and l.exists then
        changed = l.kind.refund(l, tonumber(ARGV[at + 10]), back, back)
    end
    if debt > 0 then
        changed = l.kind.settle(l, tonumber(ARGV[at + 12]), 0, debt) or changed
    end
    local granted, left = grant(l, ARGV[at], want, need, least)
    local wait = 0
    if granted < least then
        local allowed, _, _, hinted = l.kind.peek(l, least)
        wait = allowed and 1 or hinted
    end
    -- From the first answer on what was taken is made good at the new rate, as in take.lua.
    if changed or granted > 0 or l.carried then
        save(l)
    end
    local _, _, reset_at = l.kind.peek(l, 0)
    reply[4 * i - 2], reply[4 * i - 1], reply[4 * i], reply[4 * i + 1] =
        granted, left, reset_at, wait
end
if n_keys < #KEYS then
    call('SET', KEYS[#KEYS], cmsgpack.pack(tonumber(ARGV[4]), reply), 'PX', SAID_FOR)
end
return reply
