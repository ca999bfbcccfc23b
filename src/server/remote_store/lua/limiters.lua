-- limiters.lua - the six limiters in Redis: what src/lib/limit does, operation by operation.
--
-- A part of take.lua, refund.lua, settle.lua, owe.lua and block.lua, not a script. Every number is
-- a double, as it is in C where fractions count; where C has integers, they stay below 2^53 here,
-- or saturate there as C does. So the order of operations is that of the C file of the same name:
-- change both or none. test_lua_limiters.c compares them bit by bit.
--
-- ARGV[1]  the time in ms; "*": that of the server
-- ARGV[2]  a state lives for so many ms at least (with a caller's clock, which says nothing about
--          the server's); 0: until it is fresh again
--
-- A limiter is one key and five arguments: strategy, place (the script's own), three numbers.
--
--   strategy        numbers                 state: packed doubles
--   gcra            limit period burst      tat; interval; stepped, minima
--   token_bucket    capacity refill 0       tokens, last; capacity, rise; stepped, minima
--   fixed_window    limit window 0          start, used; stepped
--   token_budget    budget window 0         start, used; stepped
--   sliding_window  limit window buckets    a ring of ticks, see below; stepped
--   sliding_log     limit window 0          a ring of moments; stepped
--
-- Where the place is not on the rate axis the limiter is settled: minima (src/lib/limit/minima.h)
-- and the moment until which the clock has stepped (src/lib/limit/limit.h) are kept for these
-- alone. States that an earlier version has written are shorter, and are read; it reads ours.
--
-- A key that is not there is a fresh state. One that is of no use any more expires. The first two
-- know what their numbers were: a limit with others goes on from what was taken, as carry() in C.
--
-- Redis runs all of a script anew each time, and to make a function costs about as much as to call
-- it: so the functions of a strategy are made when a limiter of that strategy is met.

local MAX = 9007199254740991
local HALF = 4503599627370496 -- 2^52
local floor, fmod, frexp, ldexp = math.floor, math.fmod, math.frexp, math.ldexp
local min, max = math.min, math.max
local pack, unpack_from = struct.pack, struct.unpack
local call = redis.call

local now
if ARGV[1] == '*' then
    local time = call('TIME')
    now = time[1] * 1000 + floor(time[2] / 1000)
else
    now = tonumber(ARGV[1])
end
local ttl_floor = tonumber(ARGV[2])

-- ---- numbers, as in src/lib/core/num.h ----

local function num_floor(x)
    if not (x > 0) then
        return 0
    end
    return x < MAX and floor(x) or MAX
end

local function num_ceil(x)
    local whole = num_floor(x)
    return whole < x and whole < MAX and whole + 1 or whole
end

-- The sum of two numbers up to MAX is rounded where it is above, and then does not count.
local function num_add(a, b)
    return a + b < MAX and a + b or MAX
end

local function num_less(a, b)
    return a > b and a - b or 0
end

local function hint(wait)
    return min(max(wait, 1), MAX - 1)
end

-- ---- minima of the deficit, as in src/lib/limit/minima.c ----

local minima

local function make_minima()
    local MINIMA_MAX = 6
    local made = {}

    -- l.minima is flat: time and deficit of the first, of the second, and so on. Of a state without
    -- any, nobody knows how low the deficit was: nothing charged before now is given back.
    function made.load(l, bytes, from)
        local n = bytes and floor((#bytes - from) / 8) or 0
        l.stepped = 0
        if n > 0 then
            l.minima = {unpack_from('<' .. string.rep('d', n), bytes, from + 1)}
            l.minima[n + 1] = nil
            l.stepped = table.remove(l.minima, 1)
        else
            l.minima = bytes and {now, 0} or {}
        end
    end

    function made.bytes(l)
        return pack('<d' .. string.rep('d', #l.minima), l.stepped, unpack(l.minima))
    end

    local function insert(list, place, at, deficit)
        table.insert(list, place, deficit)
        table.insert(list, place, at)
        local n = #list
        if n <= 2 * MINIMA_MAX then
            return
        end
        local joined = n - 3
        for i = n - 5, 1, -2 do
            if list[i + 3] - list[i + 1] < list[joined + 3] - list[joined + 1] then
                joined = i
            end
        end
        list[joined] = list[joined + 2]
        table.remove(list, joined + 2)
        table.remove(list, joined + 2)
    end

    function made.push(l, at, deficit)
        local list = l.minima
        local n = #list
        if n > 0 then
            at = max(at, list[n - 1])
        end
        if at > now then
            l.stepped = max(l.stepped, now)
        end
        while n > 0 and list[n] >= deficit do
            list[n], list[n - 1] = nil, nil
            n = n - 2
        end
        if n == 0 or list[n - 1] < at then
            insert(list, n + 1, at, deficit)
        end
    end

    function made.owe(l, at, deficit, charged_at, cost, more)
        local list = l.minima
        local n = #list
        local i = n + 1
        while i > 1 and list[i - 2] > charged_at do
            i = i - 2
        end
        local has_own = i > 1 and list[i - 2] >= charged_at
        if cost == 0 or not (deficit > 0) or charged_at <= l.stepped or
            (i > n and not has_own) then
            return made.push(l, at, deficit)
        end
        local own = list[i + 1]
        for j = i + 1, n, 2 do
            list[j] = list[j] + more
        end
        if i < n and not has_own then
            insert(list, i, charged_at, own)
        end
    end

    function made.settle(l, charged_at, unused, deficit)
        local list = l.minima
        local n, i = #list, 1
        local back = min(unused, deficit)
        while i < n and list[i] <= charged_at do
            i = i + 2
        end
        if i < n then
            back = min(back, list[i + 1])
        end
        if not (back > 0) then
            return 0
        end
        for j = i + 1, n, 2 do
            list[j] = list[j] - back
        end
        while i < n and i > 1 and list[i - 1] >= list[i + 1] do
            table.remove(list, i - 2)
            table.remove(list, i - 2)
            i = i - 2
            n = n - 2
        end
        return back
    end

    return made
end

-- ---- gcra ----

local function tat_after(l, base, cost)
    local charge = l.interval * cost
    local after = base + charge
    if after - base < charge * (1 - 1 / 1024) then
        local _, exponent = frexp(after)
        return after + ldexp(1, exponent - 53) -- the next larger double
    end
    return after
end

local function make_gcra()
    local gcra = {}

    function gcra.ready(l, limit, period, burst)
        l.limit = burst
        l.interval = period / limit
        l.tolerance = l.interval * burst
    end

    function gcra.load(l)
        local bytes = call('GET', l.key)
        if l.settled then
            minima.load(l, bytes, 16)
        end
        if not bytes then
            l.tat = 0
            return bytes
        end
        local tat, interval = unpack_from('<dd', bytes)
        if interval ~= l.interval then
            local backlog, scale = tat - now, l.interval / interval
            tat = backlog > 0 and min(now + backlog * scale, MAX) or 0
            for i = 2, l.settled and #l.minima or 0, 2 do
                l.minima[i] = l.minima[i] * scale
            end
            l.carried = true
        end
        l.tat = tat
        return bytes
    end

    function gcra.bytes(l)
        local bytes = pack('<dd', l.tat, l.interval)
        return l.settled and bytes .. minima.bytes(l) or bytes
    end

    function gcra.fresh_at(l)
        return num_ceil(l.tat)
    end

    local function gcra_remaining(l, tat)
        local backlog = tat - now
        if not (backlog > 0) then
            return l.limit
        end
        return min(l.limit, num_floor((l.tolerance - backlog) / l.interval))
    end

    local function gcra_wait(allow_at)
        local wait = num_ceil(allow_at - now)
        while wait < MAX and now + wait < allow_at do
            wait = wait + 1
        end
        return hint(wait)
    end

    function gcra.peek(l, cost)
        local base = max(l.tat, now)
        local after = tat_after(l, base, cost)
        local allow_at = after - l.tolerance
        if cost == 0 or (cost <= l.limit and (base <= now or now >= allow_at)) then
            return true, gcra_remaining(l, after), num_ceil(after), 0
        end
        return false, gcra_remaining(l, base), num_ceil(base),
            cost > l.limit and MAX or gcra_wait(allow_at)
    end

    function gcra.take(l, cost)
        local base = max(l.tat, now)
        if l.settled then
            minima.push(l, now, base - now)
        end
        l.tat = tat_after(l, base, cost)
    end

    function gcra.refund(l, at, cost, units)
        local back, least
        if l.settled then
            back = minima.settle(l, at, l.interval * min(units, cost), max(l.tat, now) - now)
            least = 0
        else
            local owed = l.interval * cost - num_less(now, at)
            back = min(l.interval * min(units, cost), owed)
            least = min(l.tat, now)
        end
        if back > 0 then
            l.tat = max(l.tat - back, least)
            return true
        end
    end

    function gcra.settle(l, at, cost, actual)
        if actual < cost then
            return gcra.refund(l, at, cost, cost - actual)
        elseif actual > cost then
            local owed_at = l.settled and max(now, at) or now
            local base = max(l.tat, owed_at)
            if l.settled then
                minima.owe(l, owed_at, base - owed_at, at, cost, l.interval * (actual - cost))
            end
            l.tat = min(tat_after(l, base, actual - cost), MAX)
            return true
        end
    end

    return gcra
end

-- ---- token_bucket ----

local function level_at(l, at)
    local elapsed = at > l.last and at - l.last or 0
    local level = l.tokens + elapsed * l.rise
    return level < l.limit and level or l.limit
end

local function set_level(l, level)
    l.tokens = level
    l.last = max(l.last, now)
end

local function make_token_bucket()
    local token_bucket = {}

    function token_bucket.ready(l, capacity, refill)
        l.limit = capacity
        l.rise = refill / 1000
    end

    function token_bucket.load(l)
        local bytes = call('GET', l.key)
        if l.settled then
            minima.load(l, bytes, 32)
        end
        if not bytes then
            l.tokens, l.last = l.limit, 0
            return bytes
        end
        local capacity, rise
        l.tokens, l.last, capacity, rise = unpack_from('<dddd', bytes)
        if capacity ~= l.limit or rise ~= l.rise then
            local old = {tokens = l.tokens, last = l.last, limit = capacity, rise = rise}
            set_level(l, max(l.limit - (capacity - level_at(old, now)), -MAX))
            l.carried = true
        end
        return bytes
    end

    function token_bucket.bytes(l)
        local bytes = pack('<dddd', l.tokens, l.last, l.limit, l.rise)
        return l.settled and bytes .. minima.bytes(l) or bytes
    end

    local function reaches_at(l, from, wanted)
        local start = max(from, l.last)
        local at = num_add(num_floor(start), num_ceil((wanted - level_at(l, start)) / l.rise))
        local step = 1
        while at < MAX and level_at(l, at) < wanted do
            at = num_add(at, step)
            step = step * 2
        end
        return at
    end

    local function full_again_at(l, level)
        return num_add(max(now, num_floor(l.last)), num_ceil((l.limit - level) / l.rise))
    end

    function token_bucket.fresh_at(l)
        return reaches_at(l, 0, l.limit)
    end

    function token_bucket.peek(l, cost)
        local level = level_at(l, now)
        local after = level - cost
        if after >= 0 or cost == 0 then
            return true, num_floor(after), full_again_at(l, after), 0
        end
        return false, num_floor(level), full_again_at(l, level),
            cost > l.limit and MAX or hint(reaches_at(l, now, cost) - now)
    end

    function token_bucket.take(l, cost)
        local level = level_at(l, now)
        if l.settled then
            minima.push(l, max(now, l.last), l.limit - level)
        end
        set_level(l, level - cost)
    end

    function token_bucket.refund(l, at, cost, units)
        local level, back = level_at(l, now), nil
        if l.settled then
            back = minima.settle(l, at, min(units, cost), l.limit - level)
        else
            back = min(min(units, cost), cost - num_less(now, at) * l.rise)
        end
        if back > 0 then
            set_level(l, min(level + back, l.limit))
            return true
        end
    end

    function token_bucket.settle(l, at, cost, actual)
        if actual < cost then
            return token_bucket.refund(l, at, cost, cost - actual)
        elseif actual > cost then
            local level = level_at(l, now)
            if l.settled then
                minima.owe(l, max(now, l.last), l.limit - level, at, cost, actual - cost)
            end
            set_level(l, max(level - (actual - cost), -MAX))
            return true
        end
    end

    return token_bucket
end

-- ---- windows of the clock: fixed_window and token_budget ----

local function make_windows()
    local fixed_window = {}

    function fixed_window.ready(l, limit, period)
        l.limit = limit
        l.period = period
    end

    function fixed_window.load(l)
        local bytes = call('GET', l.key)
        l.start, l.used, l.stepped = 0, 0, 0
        if bytes then
            l.start, l.used = unpack_from('<dd', bytes)
            l.stepped = #bytes >= 24 and unpack_from('<d', bytes, 17) or 0
        end
        return bytes
    end

    function fixed_window.bytes(l)
        if l.settled then
            return pack('<ddd', l.start, l.used, l.stepped)
        end
        return pack('<dd', l.start, l.used)
    end

    function fixed_window.fresh_at(l)
        return l.used > 0 and num_add(l.start, l.period) or 0
    end

    -- The operator % divides and rounds; fmod() is exact.
    local function window_at(l, at)
        if at - l.start < l.period then
            return l.start, l.used
        end
        return at - fmod(at, l.period), 0
    end

    function fixed_window.peek(l, cost)
        local start, used = window_at(l, now)
        local ends = num_add(start, l.period)
        local left = num_less(l.limit, used)
        if cost <= left then
            return true, left - cost, ends, 0
        end
        return false, left, ends, cost > l.limit and MAX or hint(ends - now)
    end

    function fixed_window.take(l, cost)
        if now < l.start then
            l.stepped = max(l.stepped, now)
        end
        l.start, l.used = window_at(l, now)
        l.used = num_add(l.used, cost)
    end

    local function charged_here(l, at)
        return at >= l.start and at - l.start < l.period
    end

    function fixed_window.refund(l, at, cost, units)
        if charged_here(l, at) then
            l.used = num_less(l.used, min(units, cost))
            return true
        end
    end

    function fixed_window.settle(l, at, cost, actual)
        if actual < cost then
            return fixed_window.refund(l, at, cost, cost - actual)
        end
        if l.settled and at <= l.stepped then
            at = max(at, l.start)
        end
        l.start, l.used = window_at(l, at)
        if charged_here(l, at) then
            l.used = num_add(l.used, actual - cost)
        end
        return true
    end

    local token_budget = {
        ready = fixed_window.ready,
        load = fixed_window.load,
        bytes = fixed_window.bytes,
        fresh_at = fixed_window.fresh_at,
        take = fixed_window.take,
        refund = fixed_window.refund,
        settle = fixed_window.settle,
    }

    function token_budget.peek(l, cost)
        local start, used = window_at(l, now)
        local ends = num_add(start, l.period)
        if used < l.limit or cost == 0 then
            return true, num_less(l.limit, num_add(used, cost)), ends, 0
        end
        return false, 0, ends, hint(ends - now)
    end

    return fixed_window, token_budget
end

-- ---- the ring of the sliding ones ----
--
-- A string: a head of five doubles, then `capacity` records of three, of which n are used, from
-- `first` on and around the end. A record is a moment (or a tick) and the total of all units
-- charged up to it: units between two moments are a subtraction, whatever the number of records,
-- and both questions of a check are binary searches. A long ring is read and written in places, so
-- that a check moves some hundred bytes; a short one is fetched whole. A refund or a settlement
-- rewrites the records after the one it changes.
--
-- Totals grow without end: they are kept in two parts, high * 2^52 + low, and stay exact.

local function make_sliding()
    local HEAD, RECORD, WHOLE = 40, 24, 64

    local function ring_load(l, capacity)
        l.capacity = capacity
        l.records = {}
        local bytes
        if capacity <= WHOLE then
            bytes = call('GET', l.key) or ''
            l.whole = bytes
        else
            bytes = call('GETRANGE', l.key, 0, HEAD - 1)
        end
        if bytes == '' then
            l.latest, l.first, l.n, l.high, l.low = 0, 0, 0, 0, 0
            return false
        end
        l.latest, l.first, l.n, l.high, l.low = unpack_from('<ddddd', bytes)
        return true
    end

    local function ring_save(l)
        call('SETRANGE', l.key, 0, pack('<ddddd', l.latest, l.first, l.n, l.high, l.low))
    end

    -- Until when the clock has stepped: behind the last record, and only where it has.
    local function stepped_until(l)
        local at = HEAD + l.capacity * RECORD
        local bytes = l.whole and l.whole:sub(at + 1, at + 8) or
            call('GETRANGE', l.key, at, at + 7)
        return #bytes == 8 and unpack_from('<d', bytes) or 0
    end

    local function note_step(l)
        if l.settled and stepped_until(l) < now then
            call('SETRANGE', l.key, HEAD + l.capacity * RECORD, pack('<d', now))
        end
    end

    local function has_stepped(l, at)
        return l.settled and at <= stepped_until(l)
    end

    local function slot_of(l, i)
        local slot = l.first + i
        return slot < l.capacity and slot or slot - l.capacity
    end

    -- Record i, from 0: when, and the total up to it in two parts.
    local function get(l, i)
        local slot = slot_of(l, i)
        local record = l.records[slot]
        if not record then
            local at = HEAD + slot * RECORD
            if l.whole then
                record = {unpack_from('<ddd', l.whole, at + 1)}
            else
                record = {unpack_from('<ddd', call('GETRANGE', l.key, at, at + RECORD - 1))}
            end
            l.records[slot] = record
        end
        return record[1], record[2], record[3]
    end

    local function put(l, i, at, high, low)
        local slot = slot_of(l, i)
        l.records[slot] = {at, high, low}
        call('SETRANGE', l.key, HEAD + slot * RECORD, pack('<ddd', at, high, low))
    end

    local function plus(high, low, units)
        local over = floor(units / HALF)
        high, low = high + over, low + (units - over * HALF)
        if low >= HALF then
            return high + 1, low - HALF
        end
        return high, low
    end

    local function total_before(l, i)
        if i > 0 then
            local _, high, low = get(l, i - 1)
            return high, low
        end
        return l.high, l.low
    end

    -- The units of records i to j - 1, up to MAX.
    local function units_in(l, i, j)
        local high, low = total_before(l, j)
        local high_before, low_before = total_before(l, i)
        return min((high - high_before) * HALF + (low - low_before), MAX)
    end

    -- The first record after `moment`; n if there is none.
    local function first_after(l, moment)
        local low, high = 0, l.n
        while low < high do
            local middle = floor((low + high) / 2)
            if get(l, middle) > moment then
                high = middle
            else
                low = middle + 1
            end
        end
        return low
    end

    -- The first record from i on, up to which there are so many units; the last if there is none.
    local function record_of_unit(l, i, units)
        local low, high = i, l.n - 1
        while low < high do
            local middle = floor((low + high) / 2)
            if units_in(l, i, middle + 1) >= units then
                high = middle
            else
                low = middle + 1
            end
        end
        return low
    end

    local function drop(l, dead)
        l.high, l.low = total_before(l, dead)
        l.n = l.n - dead
        l.first = fmod(l.first + dead, l.capacity)
    end

    local function append(l, at, units)
        local high, low = total_before(l, l.n)
        if l.n == 0 or get(l, l.n - 1) ~= at then
            l.n = l.n + 1
        end
        put(l, l.n - 1, at, plus(high, low, units))
    end

    -- Adds units (or takes them away) in record i, and so in every total after it.
    local function shift_totals(l, i, units)
        for j = i, l.n - 1 do
            local at, high, low = get(l, j)
            put(l, j, at, plus(high, low, units))
        end
    end

    local function remove_record(l, i)
        for j = i, l.n - 2 do
            put(l, j, get(l, j + 1))
        end
        l.n = l.n - 1
    end

    local function insert_record(l, i, at, units)
        l.n = l.n + 1
        for j = l.n - 1, i + 1, -1 do
            local later, high, low = get(l, j - 1)
            put(l, j, later, plus(high, low, units))
        end
        local high, low = total_before(l, i)
        put(l, i, at, plus(high, low, units))
    end

    -- ---- sliding_log: a record for each ms in which something was charged ----

    local sliding_log = {save = ring_save}

    function sliding_log.ready(l, limit, period)
        l.limit = limit
        l.period = period
    end

    function sliding_log.load(l)
        return ring_load(l, min(l.limit, l.period) + 1)
    end

    function sliding_log.fresh_at(l)
        return l.n > 0 and num_add((get(l, l.n - 1)), l.period) or l.latest
    end

    function sliding_log.peek(l, cost)
        local at = max(l.latest, now)
        local first = first_after(l, at - l.period)
        local live = units_in(l, first, l.n)
        local left = num_less(l.limit, live)
        local reset_at = num_add(first < l.n and get(l, first) or at, l.period)
        if cost <= left then
            return true, left - cost, reset_at, 0
        elseif cost > l.limit then
            return false, left, reset_at, MAX
        end
        local leaves = get(l, record_of_unit(l, first, live - l.limit + cost))
        return false, left, reset_at, hint(num_add(leaves, l.period) - now)
    end

    function sliding_log.take(l, cost)
        if now < l.latest then
            note_step(l)
        end
        l.latest = max(l.latest, now)
        drop(l, first_after(l, l.latest - l.period))
        append(l, l.latest, cost)
    end

    function sliding_log.refund(l, at, cost, units)
        local i = first_after(l, at - 1)
        if i == l.n or get(l, i) ~= at then
            return false
        end
        local held = units_in(l, i, i + 1)
        local back = min(held, units, cost)
        shift_totals(l, i, -back)
        if back == held then
            remove_record(l, i)
        end
        return true
    end

    local function add_debt(l, at, units)
        local i = first_after(l, at - 1)
        l.latest = max(l.latest, at)
        if i < l.n then
            shift_totals(l, i, units)
        elseif l.n < l.capacity then
            append(l, at, units)
        else
            local _, high, low = get(l, l.n - 1)
            put(l, l.n - 1, at, plus(high, low, units))
        end
    end

    function sliding_log.settle(l, at, cost, actual)
        if actual < cost then
            return sliding_log.refund(l, at, cost, cost - actual)
        end
        if has_stepped(l, at) then
            at = l.latest
        end
        local latest = max(l.latest, at)
        if actual > cost and at > latest - l.period then
            drop(l, first_after(l, latest - l.period))
            add_debt(l, at, min(actual - cost, MAX - units_in(l, 0, l.n)))
            return true
        end
    end

    -- ---- sliding_window: a record for each tick in which something was charged ----
    --
    -- C keeps a count for every tick of the window. Here are those that are not 0, or were not;
    -- l.latest is the newest tick that was begun.

    local sliding_window = {save = ring_save}

    function sliding_window.ready(l, limit, period, buckets)
        l.limit = limit
        l.period = period
        l.buckets = buckets
        l.width = period / buckets
    end

    function sliding_window.load(l)
        return ring_load(l, l.buckets + 1)
    end

    local function tick_at(l, at)
        return max(num_floor(at / l.width), l.latest)
    end

    -- The record of a tick, or null, and the place where it would be.
    local function find_tick(l, tick)
        local i = first_after(l, tick - 1)
        return i < l.n and get(l, i) == tick, i
    end

    local function count_of(l, tick)
        local found, i = find_tick(l, tick)
        return found and units_in(l, i, i + 1) or 0
    end

    local function sum_until(l, tick)
        return units_in(l, first_after(l, tick - l.buckets), l.n)
    end

    local function estimate_at(l, tick, at)
        local inside = at - tick * l.width
        local elapsed = inside > 0 and inside or 0
        local weight = (l.width - elapsed) / l.width
        if not (weight > 0) then
            weight = 0
        end
        return sum_until(l, tick) + count_of(l, tick - l.buckets) * weight
    end

    local function fits_at(l, at, cost)
        return estimate_at(l, tick_at(l, at), at) + cost <= l.limit
    end

    -- Where C goes through the ticks one by one, the tick at which enough of them have left is
    -- searched for. Both end at the first ms that fits.
    local function fits_from(l, cost)
        local free = l.limit - cost
        local tick = tick_at(l, now)
        local first = first_after(l, tick - l.buckets)
        local full = units_in(l, first, l.n)
        if full > free then
            local low, high = first, l.n - 1
            while low < high do
                local middle = floor((low + high) / 2)
                if units_in(l, middle + 1, l.n) <= free then
                    high = middle
                else
                    low = middle + 1
                end
            end
            tick = get(l, low) + l.buckets
            full = units_in(l, low + 1, l.n)
        end
        local oldest, place = count_of(l, tick - l.buckets), 0
        if full + oldest > free then
            place = l.width * (1 - (free - full) / oldest)
        end
        local at = max(num_ceil(tick * l.width + place), num_add(now, 1))
        local step = 1
        while at < MAX and not fits_at(l, at, cost) do
            at = num_add(at, step)
            step = step * 2
        end
        while at - 1 > now and fits_at(l, at - 1, cost) do
            at = at - 1
        end
        return at
    end

    function sliding_window.fresh_at(l)
        local i = l.n - 1
        while i >= 0 and units_in(l, i, i + 1) == 0 do
            i = i - 1
        end
        if i < 0 then
            return 0
        end
        local last = get(l, i)
        local at = num_ceil((last + (l.buckets + 1)) * l.width)
        local step = 1
        while at < MAX and tick_at(l, at) <= last + l.buckets do
            at = num_add(at, step)
            step = step * 2
        end
        return at
    end

    function sliding_window.peek(l, cost)
        local tick = tick_at(l, now)
        local estimate = estimate_at(l, tick, now)
        local projected = estimate + cost
        local reset_at = num_ceil((tick + 1) * l.width + l.period)
        if projected <= l.limit or cost == 0 then
            return true, num_floor(l.limit - projected), reset_at, 0
        end
        return false, num_floor(l.limit - estimate), reset_at,
            cost > l.limit and MAX or hint(fits_from(l, cost) - now)
    end

    local function begin_tick(l, at)
        l.latest = tick_at(l, at)
        drop(l, first_after(l, l.latest - l.capacity))
    end

    -- Adds to the count of a tick that is within the ring; it ends at MAX.
    local function add_to_tick(l, tick, units)
        local found, i = find_tick(l, tick)
        if found then
            local count = units_in(l, i, i + 1)
            shift_totals(l, i, num_add(count, units) - count)
        elseif units > 0 then
            insert_record(l, i, tick, units)
        end
    end

    function sliding_window.take(l, cost)
        if num_floor(now / l.width) < l.latest then
            note_step(l)
        end
        begin_tick(l, now)
        add_to_tick(l, l.latest, cost)
    end

    function sliding_window.refund(l, at, cost, units)
        local found, i = find_tick(l, num_floor(at / l.width))
        if found then
            local count = units_in(l, i, i + 1)
            shift_totals(l, i, num_less(count, min(units, cost)) - count)
            return true
        end
    end

    function sliding_window.settle(l, at, cost, actual)
        if actual < cost then
            return sliding_window.refund(l, at, cost, cost - actual)
        end
        if has_stepped(l, at) then
            add_to_tick(l, l.latest, actual - cost)
            return true
        end
        local tick = num_floor(at / l.width)
        if tick > l.latest then
            begin_tick(l, at)
        end
        if tick > l.latest - l.capacity then
            add_to_tick(l, tick, actual - cost)
        end
        return true
    end

    return sliding_log, sliding_window
end

-- ---- limiters as they are given ----

local kinds = {}

local function make_kind(strategy)
    if strategy == 'gcra' then
        kinds.gcra = make_gcra()
    elseif strategy == 'token_bucket' then
        kinds.token_bucket = make_token_bucket()
    elseif strategy == 'fixed_window' or strategy == 'token_budget' then
        kinds.fixed_window, kinds.token_budget = make_windows()
    else
        kinds.sliding_log, kinds.sliding_window = make_sliding()
    end
    return kinds[strategy]
end

-- The limiter of KEYS[i], whose five arguments begin at ARGV[at], with its state.
local function limiter_at(i, at)
    local kind = kinds[ARGV[at]] or make_kind(ARGV[at])
    local place = ARGV[at + 1]
    local l = {key = KEYS[i], kind = kind, place = place}
    l.settled = place ~= 'rate' and place ~= 'rate-shadow'
    if l.settled and not minima then
        minima = make_minima()
    end
    kind.ready(l, tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]))
    l.exists = kind.load(l)
    return l
end

local function save(l)
    local lives = max(l.kind.fresh_at(l) - now, ttl_floor)
    if lives <= 0 then
        call('DEL', l.key)
    elseif l.kind.bytes then
        call('SET', l.key, l.kind.bytes(l), 'PX', lives)
    else
        l.kind.save(l)
        call('PEXPIRE', l.key, lives)
    end
end
