-- money_note.lua - what a node has to say about windows: what it settled, and whether a lease stands.
--
--     KEYS  for each window its hash and its set; all of one root
--     ARGV  now (ms; 0: Redis's), ledger, lease (empty: none), ttl (ms),
--           money of the lease (-1: it has ended),
--           for each window: told by the ledger, how long to keep it (ms),
--           then other leases that have ended
--     reply 1 (2: Redis did not know the lease), for each window: of the ledger before, settled, outstanding
--
-- Said twice it does nothing more. A lease that Redis has forgotten is put back while it stands. One that had
-- ended by time is in the block of its process, which has to say what it holds (money_block.lua).
-- include: money_window.lua

local now = time_of(ARGV[1])
local ledger, lease = ARGV[2], ARGV[3]
local money = tonumber(ARGV[5])
local windows, known = {}, 1

for i = 1, #KEYS / 2 do
    local told, keep = tonumber(ARGV[4 + 2 * i]), tonumber(ARGV[5 + 2 * i])
    local window = window_read(KEYS[2 * i - 1], KEYS[2 * i], ledger, lease, told, keep, now)
    if lease ~= '' and not window.held then
        known = 2
    end
    if money >= 0 and lease ~= '' then
        window_hold(window, lease, money, now + tonumber(ARGV[4]))
    else
        window_let_go(window, lease)
    end
    for i = 6 + #KEYS, #ARGV do
        window.held = tonumber(redis.call('HGET', window.hash, 'h:' .. ARGV[i]))
        known = window.held and known or 2
        window_let_go(window, ARGV[i])
    end
    if lease == '' then
        redis.call('PEXPIRE', window.hash, keep) -- in its turn, so that it stays
    end
    windows[i] = window
end
return reply_with({known}, windows)
