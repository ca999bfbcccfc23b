-- money_block.lua - how much of a budget a process may spend by itself.
--
--     KEYS  for each window its hash; all of one root
--     ARGV  now (ms; 0: Redis's), ledger, process, number of this ask, 1: no other process settles
--           through this ledger, gateways alive,
--           for each window: amount, settled through the ledger, held (by calls in flight), kept
--           besides, 1: what is above these two is given back, needed on top, wanted beyond that,
--           the largest reservation, epoch and version that the process knows, what it remembers
--           of the others ("": nothing to tell), how long to keep the window (ms), all that the process
--           has settled, credits apart
--     reply for each window eight numbers: a verdict, block, used by the others, settled by all,
--           of the ledger before, 1: money is short, epoch, version;
--           then for each window what others have, to be remembered
--
-- Beside what money_window.lua says, the hash of a window has
--
--     e:LEDGER.PROCESS   a block: what that process holds or may still spend
--     q:LEDGER.PROCESS   the number of its last ask: one from a dead connection must not undo a later one
--     p:LEDGER.PROCESS   all that it had settled then, credits apart
--     b                  the sum of all blocks; they are a part of `o`, too
--     epoch, version     when the hash was made (us), and how many asks have been answered in it
--     born               the same in ms, by the clock that counts here
--     quiet              until then (ms) nothing is granted: money of others may have been forgotten
--
--     used = settled + outstanding <= amount, but for what calls used beyond it
--
-- A budget of everyone was leased otherwise before, and both ways go on side by side while a fleet is upgraded:
--
--     g:LEDGER   leased: all that the node may use in this window, settled or not; lasts for EARLIER_TTL
--     t:LEDGER   when that node was heard last
--     q:LEDGER   the number of its last ask
--
-- What such nodes are leased and have not settled counts here, and each block is written as such a lease, too.
--
-- What a process settles leaves its block as it enters the sum: both are told by one ask. A block
-- ends by the word of its ledger alone, never by time, for calls in flight are billed whoever has
-- died: by its process; or by the next process with that ledger, whose sum has what was spent.
--
-- Verdicts: 0 a newer ask has been answered (`block` is its number); 1 `block` counts from now on;
-- 2 the server has forgotten something: ask again, and tell what is remembered; 3 the same, and
-- nothing is granted yet.
-- include: money_window.lua

local now = time_of(ARGV[1])
local ledger, me = ARGV[2], ARGV[2] .. '.' .. ARGV[3]
local number, alone, nodes = tonumber(ARGV[4]), ARGV[5] == '1', math.max(tonumber(ARGV[6]), 1)

-- Remembered by a process, at most.
local MEMORY = 16384

-- How long a lease of an earlier program lasts (ms), and a time that is never over.
local EARLIER_TTL, NEVER = 60000, MAX

local function fields_of(hash)
    local all, fields = redis.call('HGETALL', hash), {}
    for i = 1, #all, 2 do
        fields[all[i]] = all[i + 1]
    end
    return fields
end

local function number_of(window, field)
    return tonumber(window.fields[field]) or 0
end

-- Fields, each with its value.
local function set(window, ...)
    local given = {...}
    redis.call('HSET', window.hash, ...)
    for i = 1, #given, 2 do
        window.fields[given[i]] = given[i + 1]
    end
end

local function add_blocks(window, money)
    window.outstanding = window.outstanding + money
    set(window, 'b', number_of(window, 'b') + money, 'o', window.outstanding)
end

local function set_block(window, process, money)
    add_blocks(window, money - number_of(window, 'e:' .. process))
    set(window, 'e:' .. process, money)
    if window.everyone then
        set(window, 'g:' .. process, money, 't:' .. process, NEVER)
    end
end

-- Leased by earlier programs and not settled.
local function leased_earlier(window)
    local sum = 0
    for field, value in pairs(window.fields) do
        local id = string.sub(field, 3)
        if string.sub(field, 1, 2) == 'g:' and not window.fields['e:' .. id] and
            number_of(window, 't:' .. id) + EARLIER_TTL > now then
            sum = sum + math.max(0, value - number_of(window, 'l:' .. id))
        end
    end
    return sum
end

local function tell(window, of, told)
    window.before = number_of(window, 'l:' .. of)
    window_tell(window, of, told, window.keep)
    window.fields['l:' .. of] = math.max(window.before, told)
end

-- What another process has heard of the others: sums merge by max(), blocks by their numbers. And what an
-- operator has written off, unless it has been heard since.
local function restore(window, memory)
    for kind, id, at, money in string.gmatch(memory, '(%a) (%S+) (%d+) (%d+);') do
        money, at = tonumber(money), tonumber(at)
        if kind == 'l' then
            tell(window, id, money)
        elseif kind == 'e' and id ~= me and at > number_of(window, 'q:' .. id) then
            set_block(window, id, money)
            set(window, 'q:' .. id, at)
        elseif kind == 'w' and id ~= me and at >= number_of(window, 'q:' .. id) then
            set_block(window, id, 0)
            set(window, 'q:' .. id, at + 1)
        end
    end
end

local function remember(window)
    local list = {}
    for field, value in pairs(window.fields) do
        local kind, id = string.sub(field, 1, 2), string.sub(field, 3)
        if kind == 'l:' then
            list[#list + 1] = string.format('l %s 0 %.0f;', id, value)
        elseif kind == 'e:' and id ~= me then
            list[#list + 1] = string.format('e %s %.0f %.0f;', id, number_of(window, 'q:' .. id), value)
        end
    end
    local memory = table.concat(list)
    return #memory <= MEMORY and memory or ''
end

-- Earlier processes of this ledger have ended, and it has said what they spent.
local function drop_predecessors(window)
    local gone, leases = {}, {}
    for field in pairs(window.fields) do
        local kind, id = string.sub(field, 1, 2), string.sub(field, 3)
        local is_ours = id == ledger or string.sub(id, 1, #ledger + 1) == ledger .. '.'
        if (kind == 'e:' or kind == 'g:') and id ~= me and is_ours then
            gone[id] = true
        elseif kind == 'h:' and is_ours and string.sub(id, 1, #me + 1) ~= me .. '.' then
            leases[#leases + 1] = id
        end
    end
    for id in pairs(gone) do
        if window.fields['e:' .. id] then
            add_blocks(window, -number_of(window, 'e:' .. id))
        end
        redis.call('HDEL', window.hash, 'e:' .. id, 'q:' .. id, 'p:' .. id, 'g:' .. id, 't:' .. id)
        window.fields['e:' .. id], window.fields['g:' .. id] = nil, nil
    end
    for _, lease in ipairs(leases) do -- what is in the set finds nothing here when it ends
        window.outstanding = window.outstanding - number_of(window, 'h:' .. lease)
        set(window, 'o', window.outstanding)
        redis.call('HDEL', window.hash, 'h:' .. lease)
    end
end

local function answer(window, verdict, block, short)
    local used = window.settled + window.outstanding + window.earlier
    local own = number_of(window, 'l:' .. ledger) + number_of(window, 'e:' .. me)
    return {verdict, block, math.max(0, math.min(MAX, used - own)), window.settled, window.told_before,
            short and 1 or 0, number_of(window, 'epoch'), number_of(window, 'version')}
end

local function ask(window, at)
    local function argument(i)
        return tonumber(ARGV[at + i])
    end
    local amount, told, held, kept = argument(1), argument(2), argument(3), argument(4)
    local gives_back, needed, wanted = argument(5) == 1, argument(6), argument(7)
    local largest, epoch, version = argument(8), argument(9), argument(10)
    local memory, spent = ARGV[at + 11], argument(13)
    local last = number_of(window, 'q:' .. me)

    window.told_before = number_of(window, 'l:' .. ledger)
    if number <= last then
        return answer(window, 0, last)
    end
    local lost = epoch > DOUBT and (number_of(window, 'epoch') ~= epoch or
                     number_of(window, 'version') < version)
    if lost and memory == '' then
        return answer(window, 2, 0)
    end
    -- Whoever comes to a loss when the others have long spoken need not make them wait again.
    local fresh = window.fields['epoch'] == nil
    if lost and (fresh or number_of(window, 'epoch') == epoch or
                     (number_of(window, 'quiet') == 0 and number_of(window, 'born') + QUIET > now)) then
        set(window, 'quiet', now + QUIET)
    end
    if epoch == DOUBT and number_of(window, 'quiet') <= now and server_is_young() then
        set(window, 'quiet', now + QUIET)
    end
    if fresh then
        local time = redis.call('TIME')
        set(window, 'epoch', tonumber(time[1]) * 1000000 + tonumber(time[2]))
        set(window, 'born', now)
    end
    restore(window, memory)
    tell(window, ledger, told)
    if alone then
        drop_predecessors(window)
    end
    window.earlier = leased_earlier(window)

    -- What the process keeps for certain. If it is not known here, what it has is taken from what is left.
    local had, left = number_of(window, 'e:' .. me), 0
    if window.fields['p:' .. me] then
        left = math.max(0, had - math.max(0, spent - number_of(window, 'p:' .. me)))
    else
        left = math.min(had, held + kept)
    end
    local others = window.settled - number_of(window, 'l:' .. ledger) + window.outstanding +
                       window.earlier - had
    local rest = math.max(0, amount - others - number_of(window, 'l:' .. ledger))
    local base = math.max(held, left)
    if last == 0 then
        base = math.max(held, math.min(held + kept, rest))
    elseif gives_back then
        base = math.max(held, math.min(left, held + kept))
    end
    local room = math.max(0, rest - base)
    local quiet = number_of(window, 'quiet') > now
    local short = room < math.max(nodes * largest, amount / 50)
    local block = base
    if not quiet then
        block = math.max(block, math.min(base + room, held + needed))
        if not short then
            local extra = math.min(wanted, math.floor((room - (block - base)) / (2 * nodes)))
            block = math.max(block, math.min(base + room, held + needed + extra))
        end
    end
    set_block(window, me, block)
    set(window, 'q:' .. me, number, 'p:' .. me, spent,
        'version', math.max(number_of(window, 'version'), version) + 1)
    redis.call('PEXPIRE', window.hash, window.keep)
    if quiet and block < held + needed then
        return answer(window, 3, block)
    end
    return answer(window, 1, block, short and not quiet)
end

local ASK = 13
local reply, memories = {}, {}
for i, hash in ipairs(KEYS) do
    local at = 6 + ASK * (i - 1)
    local fields = fields_of(hash)
    local window = {hash = hash, fields = fields, keep = tonumber(ARGV[at + 12]),
                    settled = tonumber(fields['s']) or 0, outstanding = tonumber(fields['o']) or 0,
                    earlier = 0, everyone = string.find(hash, ':money:{%}:', 1, true) ~= nil}
    for _, each in ipairs(ask(window, at)) do
        reply[#reply + 1] = each
    end
    memories[i] = remember(window)
end
for _, memory in ipairs(memories) do
    reply[#reply + 1] = memory
end
return reply
