-- money_lower.lua - a ledger has settled less in a window than it has told: an operator has credited some.
--
--     KEYS  the hash of the window and its set
--     ARGV  now (ms; 0: Redis's), ledger, told by the ledger, how long to keep it (ms)
--     reply 1, of the ledger before, settled, outstanding
--
-- The one script that lowers a sum. Said twice it does nothing more. Something that the ledger told
-- before it, and that comes late, raises the sum again: then the credit is lost, and nothing else.
-- include: money_window.lua

local now = time_of(ARGV[1])
local ledger, told, keep = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local window = window_read(KEYS[1], KEYS[2], ledger, '', told, keep, now)

if window.before > told then
    window.settled = math.max(0, window.settled - (window.before - told))
    redis.call('HSET', window.hash, 'l:' .. ledger, told, 's', window.settled)
end
return reply_with({1}, {window})
