-- once.lua - a command that is sent again is executed once.
--
-- A part of refund.lua, settle.lua and owe.lua, not a script. When a connection breaks between a
-- command and its reply, nobody knows whether it was done: then it is sent again, and a bit that
-- the first one has left behind says that it was. The bits lie in the slot of what is changed, and
-- are set by the script that changes it: whatever copy of the data survives has both, or neither.
--
-- KEYS     one more, the last: the bits
-- ARGV[3]  which of them is for this command; "": there are none, it is not sent again
--
-- Who may send a command again has half of MARKED_FOR for that: remote_limits_deferred.c.

local MARKED_FOR = 600000
local n_keys = #KEYS

if ARGV[3] ~= '' then
    if call('SETBIT', KEYS[n_keys], ARGV[3], 1) == 1 then
        return 0
    end
    call('PEXPIRE', KEYS[n_keys], MARKED_FOR)
    n_keys = n_keys - 1
end
