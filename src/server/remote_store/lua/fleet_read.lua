-- fleet_read.lua - what all gateways share: all of it, or what has changed since a version.
--
-- KEYS  1 the head; 2 entries; 3 the stream of changes
-- ARGV  1 the version that the reader has, -1: none; 2 the id of the change that made it
--
-- Reply: epoch, version, id of the last change, schema, lineage, and
--     all      name, value of each entry
--     changes  name, value, "1" if it was taken away, in the order in which it happened
--     forked   the reader's version is not one of this store's
--     none     there is nothing
local head = redis.call('HMGET', KEYS[1], 'epoch', 'version', 'change', 'schema', 'lineage')
if not head[1] then
    return {'', 0, '', 0, '', 'none'}
end
local version, after = tonumber(head[2]), tonumber(ARGV[1])
local reply = {head[1], version, head[3], tonumber(head[4]), head[5] or '', 'all'}

if after >= 0 then
    local stream = redis.call('XRANGE', KEYS[3], string.format('%d-0', after), '+')
    local first = stream[1]
    if first and first[1] == string.format('%d-0', after) then
        if first[2][2] ~= ARGV[2] then
            reply[6] = 'forked'
            return reply
        end
        reply[6] = 'changes'
        for i = 2, #stream do
            local fields = stream[i][2]
            if fields[3] == 'all' then
                reply[6] = 'all'
                break
            end
            for k = 3, #fields, 4 do
                reply[#reply + 1] = fields[k]
                reply[#reply + 1] = fields[k + 1]
                reply[#reply + 1] = fields[k + 3]
            end
        end
        if reply[6] == 'changes' then
            return reply
        end
        reply = {head[1], version, head[3], tonumber(head[4]), head[5] or '', 'all'}
    end
end
local entries = redis.call('HGETALL', KEYS[2])
for i = 1, #entries do
    reply[#reply + 1] = entries[i]
end
return reply
