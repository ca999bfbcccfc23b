-- fleet_change.lua - one change of what all gateways share: one version more.
--
-- KEYS  1 the head: epoch, version, change, schema, lineage; 2 entries; 3 the stream of changes;
--       4 the epoch of a store that a gateway has seen go back, while it does
-- ARGV  1 "change", "create" or "restore"; 2 epoch; 3 the version that it was made for;
--       4 its id; 5 schema; 6 lineage: epochs that a restored store goes on from;
--       7 restore: the epoch of what is replaced, "-" where there is nothing;
--       then name, value, "1" if it is taken away, of each entry
--
-- Reply: what became of it, and the version now.
--     ok         it is stored; also when it comes a second time, after a connection that broke
--     conflict   another change was first
--     epoch      the store is another one, or empty
--     exists     create: there is one already; restore: there is another one by now
--     regressed  a gateway has seen a later state than this one
--
-- A reader that has version n reads what follows n in the stream. Changes of very many entries, and
-- those that replace all of them, stand there without their entries: then it reads all of them.
local LOGGED_MAX, KEPT_MAX = 500, 1000
local mode, epoch, made_for, id, schema = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local head = redis.call('HMGET', KEYS[1], 'epoch', 'version')
local version = tonumber(head[2] or '0')

if mode == 'change' then
    if head[1] ~= epoch then
        return {'epoch', version}
    end
    if version ~= made_for then
        local next_id = string.format('%d-0', made_for + 1)
        local next = redis.call('XRANGE', KEYS[3], next_id, next_id)
        if next[1] and next[1][2][2] == id then
            return {'ok', made_for + 1}
        end
        return {'conflict', version}
    end
    if redis.call('GET', KEYS[4]) == epoch then
        return {'regressed', version}
    end
elseif head[1] == epoch then
    return {'ok', version}
elseif mode == 'create' and head[1] or mode == 'restore' and (head[1] or '-') ~= ARGV[7] then
    return {'exists', version}
else
    redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
    version = math.max(version, made_for)
end

version = version + 1
local entry = {'id', id}
local entries = (#ARGV - 7) / 3
for i = 8, #ARGV, 3 do
    if ARGV[i + 2] == '1' then
        redis.call('HDEL', KEYS[2], ARGV[i])
    else
        redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
    end
    if mode == 'change' and entries <= LOGGED_MAX then
        entry[#entry + 1] = ARGV[i]
        entry[#entry + 1] = ARGV[i + 1]
        entry[#entry + 1] = 'gone'
        entry[#entry + 1] = ARGV[i + 2]
    end
end
if mode ~= 'change' or entries > LOGGED_MAX then
    entry[#entry + 1] = 'all'
    entry[#entry + 1] = '1'
end
redis.call('HSET', KEYS[1], 'epoch', epoch, 'version', string.format('%d', version), 'change', id,
    'schema', schema)
if mode ~= 'change' then
    redis.call('HSET', KEYS[1], 'lineage', ARGV[6])
end
redis.call('XADD', KEYS[3], 'MAXLEN', '~', KEPT_MAX, string.format('%d-0', version), unpack(entry))
return {'ok', version}
