-- money_window.lua - one window of one account: what the scripts of money do to it.
--
-- A window is a hash and a sorted set. The hash:
--
--     l:LEDGER   what was ever settled here through that ledger; only grows
--     s          the sum of these
--     h:LEASE    what that lease has reserved; LEASE is LEDGER.PROCESS.NUMBER
--     o          the sum of these and of all blocks: see money_block.lua
--
-- The set has the leases, by the time at which they end unless they are renewed. Each script first looks for
-- leases of a window that have ended: their process has died, or has lost touch for longer than a lease
-- lives. Calls in flight are billed whoever has died, so what such a lease has reserved becomes a part of the
-- block of its process, and ends as blocks do: by the word of the process, or of its ledger. (Earlier
-- programs did not say whose a lease is: theirs are dropped.)
--
-- Numbers are whole and at most 2^53-1, so that doubles hold them exactly. They are given to
-- redis.call() as numbers, which writes them out whole; never joined to text, which would not.
--
-- A server without memory refuses commands that may need some, and lets others pass: what writes
-- comes before what removes, so that such a script has changed nothing.

local MAX = 9007199254740991

-- Looked for at once; more wait for the next script. One node's death must not stop all others.
local DROPS = 500

-- Processes that are alive have so long to say what they have, once a server has lost data (ms).
local QUIET = 3000

-- A server that began so short a time ago (s) may not have heard of all of them again.
local YOUNG = 10

-- The epoch of a process that knows nothing of a window and has been without the server, which may have begun
-- anew meanwhile.
local DOUBT = 1

local OWNER = '^(' .. string.rep('%x', 16) .. '%..+)%.%x+$'

local function time_of(given)
    if given ~= '0' then
        return tonumber(given)
    end
    local time = redis.call('TIME')
    return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- What a server that began a moment ago does not have, it may have lost; what it has may be old.
local function server_is_young()
    local said = redis.pcall('INFO', 'server')
    local uptime = type(said) == 'string' and string.match(said, 'uptime_in_seconds:(%d+)')
    return uptime and tonumber(uptime) < YOUNG
end

local function window_drop(hash, set, now)
    local gone = redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, DROPS)
    if #gone == 0 then
        return
    end
    local fields, dropped, kept = {}, 0, 0
    for i, lease in ipairs(gone) do
        fields[i] = 'h:' .. lease
    end
    for i, money in ipairs(redis.call('HMGET', hash, unpack(fields))) do
        local owner = string.match(gone[i], OWNER)
        if money and owner then
            redis.call('HINCRBY', hash, 'e:' .. owner, money)
            kept = kept + money
        else
            dropped = dropped + (tonumber(money) or 0)
        end
    end
    if kept > 0 then
        redis.call('HINCRBY', hash, 'b', kept)
    end
    if dropped > 0 then
        redis.call('HINCRBY', hash, 'o', -dropped)
    end
    redis.call('HDEL', hash, unpack(fields))
    redis.call('ZREM', set, unpack(gone))
end

-- What a ledger tells is merged by max(): it may come twice, late, and in any order.
local function window_tell(window, ledger, told, keep)
    if told <= window.before then
        return
    end
    window.settled = math.min(MAX, window.settled + told - window.before)
    redis.call('HSET', window.hash, 'l:' .. ledger, told, 's', window.settled)
    redis.call('PEXPIRE', window.hash, keep)
end

local function window_read(hash, set, ledger, lease, told, keep, now)
    window_drop(hash, set, now)
    local found = redis.call('HMGET', hash, 's', 'o', 'l:' .. ledger, 'h:' .. lease, 'epoch', 'quiet')
    local window = {
        hash = hash,
        set = set,
        keep = keep,
        settled = tonumber(found[1]) or 0,
        outstanding = tonumber(found[2]) or 0,
        before = tonumber(found[3]) or 0,
        held = tonumber(found[4]), -- nil: the lease has nothing here
        epoch = tonumber(found[5]) or 0,
        is_quiet = (tonumber(found[6]) or 0) > now,
        fresh = not found[2],
    }
    window_tell(window, ledger, told, keep)
    return window
end

-- The lease has this much here from now on, whatever it had.
local function window_hold(window, lease, money, ends_at)
    if window.held ~= money then
        window.outstanding = window.outstanding - (window.held or 0) + money
        window.held = money
        redis.call('HSET', window.hash, 'o', window.outstanding, 'h:' .. lease, money)
    end
    redis.call('ZADD', window.set, ends_at, lease)
    redis.call('PEXPIRE', window.set, window.keep) -- it goes with its last lease, and comes again
    if window.fresh then
        redis.call('PEXPIRE', window.hash, window.keep)
    end
end

local function window_let_go(window, lease)
    if window.held == nil then
        return
    end
    window.outstanding = window.outstanding - window.held
    window.held = nil
    redis.call('HSET', window.hash, 'o', window.outstanding)
    redis.call('HDEL', window.hash, 'h:' .. lease)
    redis.call('ZREM', window.set, lease)
end

-- Every reply ends with three numbers for each window.
local function reply_with(reply, windows)
    for _, window in ipairs(windows) do
        reply[#reply + 1] = window.before
        reply[#reply + 1] = window.settled
        reply[#reply + 1] = window.outstanding
    end
    return reply
end
