-- money_block.lua - how much of a budget of everyone a node may use by itself.
--
--     KEYS  for each window its hash
--     ARGV  now (ms; 0: Redis's), ledger, number of this ask, ttl (ms),
--           for each window: amount, used by the node (settled and reserved), needed, wanted,
--           told by the ledger, how long to keep it (ms)
--     reply 0 and its number: an ask came before that is not older; or 1, the nodes alive,
--           for each window: leased, used by the others, settled by all, of the ledger before
--
-- The hash is that of a window (l:LEDGER, s), and for each node that is alive
--
--     g:LEDGER   leased: all that it may use in this window, settled or not
--     t:LEDGER   when it was last heard
--     q:LEDGER   the number of its last ask: one from a dead connection must not undo a later one
--
--     used = sum over nodes of max(leased, settled) <= amount, but for what nodes used beyond it
--
-- What a node has used is its own, whatever the amount. What it was leased it keeps as long as it
-- wants it: only the node knows how much of it is in use by now. Of the rest it gets what it
-- needs, and beyond that at most an even part. A node that was not heard for longer than ttl uses
-- nothing any more (it keeps to that by its own clock): its lease falls to what it has settled.
-- money_window.lua - one window of one account: what the scripts of money do to it.
--
-- A window is a hash and a sorted set. The hash:
--
--     l:LEDGER   what was ever settled here through that ledger; only grows
--     s          the sum of these
--     h:LEASE    what that lease has reserved
--     o          the sum of these
--
-- The set has the leases, by the time at which they end. Each script first drops the leases of a
-- window that have ended: their node has died, or has lost touch for longer than a lease lives.
--
-- Numbers are whole and at most 2^53-1, so that doubles hold them exactly. They are given to
-- redis.call() as numbers, which writes them out whole; never joined to text, which would not.
--
-- A server without memory refuses commands that may need some, and lets others pass: what writes
-- comes before what removes, so that such a script has changed nothing.

local MAX = 9007199254740991

-- Dropped at once; more wait for the next script. One node's death must not stop all others.
local DROPS = 500

local function time_of(given)
    if given ~= '0' then
        return tonumber(given)
    end
    local time = redis.call('TIME')
    return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function window_drop(hash, set, now)
    local gone = redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, DROPS)
    if #gone == 0 then
        return
    end
    local fields, sum = {}, 0
    for i, lease in ipairs(gone) do
        fields[i] = 'h:' .. lease
    end
    for _, money in ipairs(redis.call('HMGET', hash, unpack(fields))) do
        sum = sum + (tonumber(money) or 0)
    end
    if sum > 0 then
        redis.call('HINCRBY', hash, 'o', -sum)
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
    local found = redis.call('HMGET', hash, 's', 'o', 'l:' .. ledger, 'h:' .. lease)
    local window = {
        hash = hash,
        set = set,
        keep = keep,
        settled = tonumber(found[1]) or 0,
        outstanding = tonumber(found[2]) or 0,
        before = tonumber(found[3]) or 0,
        held = tonumber(found[4]), -- nil: the lease has nothing here
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

local now = time_of(ARGV[1])
local ledger, number, ttl = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

for _, hash in ipairs(KEYS) do
    local last = tonumber(redis.call('HGET', hash, 'q:' .. ledger)) or 0
    if number <= last then
        return {0, last}
    end
end

-- The others of a window: what they use, what they settled, how many are alive.
local function others_of(hash)
    local all, nodes = redis.call('HGETALL', hash), {}
    for i = 1, #all, 2 do
        local kind, id = string.sub(all[i], 1, 2), string.sub(all[i], 3)
        if (kind == 'l:' or kind == 'g:' or kind == 't:') and id ~= ledger then
            nodes[id] = nodes[id] or {}
            nodes[id][kind] = tonumber(all[i + 1])
        end
    end
    local used, alive = 0, 0
    for id, node in pairs(nodes) do
        local leased = node['g:'] or 0
        if node['t:'] and node['t:'] + ttl > now then
            alive = alive + 1
        else
            leased = 0
            redis.call('HDEL', hash, 'g:' .. id, 't:' .. id, 'q:' .. id)
        end
        used = math.min(MAX, used + math.max(leased, node['l:'] or 0))
    end
    return used, alive
end

local reply, alive = {1, 1}, 0
for i, hash in ipairs(KEYS) do
    local at = 4 + 6 * (i - 1)
    local amount, used = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    local needed, wanted = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
    local found = redis.call('HMGET', hash, 's', 'l:' .. ledger, 'g:' .. ledger, 't:' .. ledger)
    local window = {hash = hash, settled = tonumber(found[1]) or 0, before = tonumber(found[2]) or 0}
    window_tell(window, ledger, tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]))

    local others, living = others_of(hash)
    local had = (tonumber(found[4]) or 0) + ttl > now and tonumber(found[3]) or 0
    local leased = math.max(used, window.before, math.min(wanted, had))
    local room = math.max(0, amount - others - leased)
    local even = math.min(wanted - leased, math.floor(room / (living + 1)))
    leased = leased + math.max(0, math.min(room, math.max(needed - leased, even)))
    redis.call('HSET', hash, 'g:' .. ledger, leased, 't:' .. ledger, now, 'q:' .. ledger, number)
    redis.call('PEXPIRE', hash, tonumber(ARGV[at + 6]))

    alive = math.max(alive, living + 1)
    reply[#reply + 1] = leased
    reply[#reply + 1] = others
    reply[#reply + 1] = window.settled
    reply[#reply + 1] = window.before
end
reply[2] = alive
return reply
