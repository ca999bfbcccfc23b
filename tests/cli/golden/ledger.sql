-- A ledger of version 1, as it was written: later versions of the program have to read it, or to
-- refuse it by name.
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE ledger ( one INTEGER PRIMARY KEY CHECK (one = 1), token INTEGER NOT NULL, moved INTEGER NOT NULL, closed INTEGER NOT NULL, ever_until INTEGER NOT NULL);
CREATE TABLE tenants ( id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name TEXT NOT NULL, UNIQUE (parent, name));
CREATE TABLE names (id INTEGER PRIMARY KEY, text BLOB NOT NULL UNIQUE);
CREATE TABLE calls ( sequence INTEGER PRIMARY KEY, reserved_at INTEGER NOT NULL, settled_at INTEGER NOT NULL, tenant INTEGER NOT NULL, user INTEGER NOT NULL, model INTEGER NOT NULL, provider INTEGER NOT NULL, key INTEGER NOT NULL, input INTEGER NOT NULL, cached_input INTEGER NOT NULL, cache_write INTEGER NOT NULL, output INTEGER NOT NULL, micro_usd INTEGER NOT NULL, flags INTEGER NOT NULL);
CREATE INDEX calls_by_time ON calls (reserved_at);
CREATE TABLE sums ( span INTEGER NOT NULL, begin INTEGER NOT NULL, tenant INTEGER NOT NULL, user INTEGER NOT NULL, model INTEGER NOT NULL, calls INTEGER NOT NULL, input INTEGER NOT NULL, cached_input INTEGER NOT NULL, cache_write INTEGER NOT NULL, output INTEGER NOT NULL, micro_usd INTEGER NOT NULL, PRIMARY KEY (span, begin, tenant, user, model)) WITHOUT ROWID;
INSERT INTO ledger VALUES (1, 4711, 12, 1, 1672531200000);
INSERT INTO tenants VALUES (1, 0, 'product'), (2, 1, 'team-a'), (3, 0, 'gone'), (4, 0, 'team-a');
INSERT INTO names VALUES (1, CAST('demo-small' AS BLOB)), (2, CAST('demo-large' AS BLOB)), (3, CAST('ann' AS BLOB));
-- 2024-01-31T00:00:00Z and a day later; the same tenant at two places; everything before 2023.
INSERT INTO sums VALUES (1, 1706659200000, 1, 0, 1, 1, 10, 0, 0, 5, 7);
INSERT INTO sums VALUES (1, 1706659200000, 2, 3, 1, 2, 100, 20, 3, 50, 1500000);
INSERT INTO sums VALUES (1, 1706745600000, 2, 0, 1, 3, 1000, 0, 0, 500, 999999);
INSERT INTO sums VALUES (1, 1706745600000, 4, 0, 1, 1, 1, 1, 1, 1, 1);
INSERT INTO sums VALUES (1, 1706745600000, 2, 0, 2, 1, 9007199254740991, 0, 0, 0, 9000000000000000000);
INSERT INTO sums VALUES (1, 1706745600000, 3, 0, 0, 1, 0, 0, 0, 0, 1000000);
INSERT INTO sums VALUES (2, 0, 2, 3, 1, 4, 1, 1, 1, 1, 40000000);
PRAGMA application_id = 1416588396;
PRAGMA user_version = 1;
COMMIT;
