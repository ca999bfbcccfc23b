#!/bin/sh
# spend.sh - `tollgate spend`: what it prints, as a table and as JSON, and what it refuses.
#
# The ledger is made of golden/ledger.sql. What is still in a journal is for the tests in
# tests/unit/server/ledger: no command writes one.
set -u
. "$(dirname "$0")/../lib/tap"

if ! command -v sqlite3 >/dev/null; then
    skip 'spend' 'there is no sqlite3'
    finish
fi
make_ledger() {
    rm -f "$1" "$1"-*
    sqlite3 "$1" <"$here/golden/ledger.sql" >/dev/null
}
mkdir "$tmp/d"
make_ledger "$tmp/d/spend.db"
cat >"$tmp/d/c.yaml" <<'END'
ledger: {path: spend.db}
budgets: [{usd: 1000.5, per: total}]
tenants:
  - {name: team-a, parent: product, budgets: [{usd: 3, per: total, mode: shadow}]}
  - {name: product}
  - {name: idle, budgets: [{usd: 0.000001, per: total}]}
END

# prints NAME: the last run was good, and printed exactly what stands on stdin.
prints() {
    cat >"$tmp/want"
    if [ "$status" -ne 0 ] || [ -s "$tmp/err" ]; then
        not_ok "$1" "status $status" "$(cat "$tmp/err")"
    elif cmp -s "$tmp/want" "$tmp/out"; then
        ok "$1"
    else
        not_ok "$1" "$(diff "$tmp/want" "$tmp/out")"
    fi
}

run spend -c "$tmp/d/c.yaml" --since 2024-01-31
prints 'a table by tenant and model, exact to the micro-dollar' <<'END'
since 2024-01-31T00:00:00Z

tenant   model       calls             input  cached  cache write  output                   USD  uncertain USD
gone                     1                 0       0            0       0              1.000000       0.000000
product  demo-small      1                10       0            0       5              0.000007       0.000000
team-a   demo-large      1  9007199254740991       0            0       0  9000000000000.000000       0.000000
team-a   demo-small      6              1101      21            4     551              2.500000       0.000000
total                    9  9007199254742102      21            4     556  9000000000000.000000       0.000000
END

run spend -c "$tmp/d/c.yaml" --since 2024-02-01T13:00:00+01:00 --tenant product
prints 'a tenant and those beneath it, from the beginning of an old day' <<'END'
since 2024-02-01T00:00:00Z

tenant  model       calls             input  cached  cache write  output                   USD  uncertain USD
team-a  demo-large      1  9007199254740991       0            0       0  9000000000000.000000       0.000000
team-a  demo-small      3              1000       0            0     500              0.999999       0.000000
total                   4  9007199254741991       0            0     500  9000000000000.000000       0.000000
END

run spend -c "$tmp/d/c.yaml" --since 2024-01-31T00:00:00Z --tenant gone --json
prints 'JSON; a tenant that only the ledger knows' <<'END'
{"since_ms":1706659200000,"rows":[{"tenant":"gone","model":"","calls":1,"input":0,"cached_input":0,"cache_write":0,"output":0,"micro_usd":1000000,"usd":"1.000000","uncertain_micro_usd":0}],"total":{"calls":1,"input":0,"cached_input":0,"cache_write":0,"output":0,"micro_usd":1000000,"usd":"1.000000","uncertain_micro_usd":0},"budgets":[],"credits":[],"damaged":0}
END

run spend -c "$tmp/d/c.yaml"
sed 1,/^$/d "$tmp/out" | sed 1,/^$/d >"$tmp/budgets" && mv "$tmp/budgets" "$tmp/out"
prints 'without --since, every budget with what was spent in its window' <<'END'
budget      per    zone  since                     spent USD       of USD
(everyone)  total  UTC   the beginning  9000000000000.000000  1000.500000
team-a      total  UTC   the beginning  9000000000000.000000     3.000000
idle        total  UTC   the beginning              0.000000     0.000001
END

run spend -c "$tmp/d/c.yaml" --since 0ms
sed 1d "$tmp/out" >"$tmp/rest" && mv "$tmp/rest" "$tmp/out"
prints 'nothing was spent since now' <<'END'

tenant  model  calls  input  cached  cache write  output       USD  uncertain USD
total              0      0       0            0       0  0.000000       0.000000
END

run spend -c "$tmp/d/c.yaml" --since 1970-01-01 --tenant team-a
prints 'since ever' <<'END'
since the beginning

tenant  model       calls             input  cached  cache write  output                   USD  uncertain USD
team-a  demo-large      1  9007199254740991       0            0       0  9000000000000.000000       0.000000
team-a  demo-small     10              1102      22            5     552             42.500000       0.000000
total                  11  9007199254742093      22            5     552  9000000000000.000000       0.000000
END

# ---- By what, and until when ----

run spend -c "$tmp/d/c.yaml" --since 2024-01-31 --until 2024-02-01 --by user
prints '--until ends before its day; a row for each user of a tenant' <<'END'
since 2024-01-31T00:00:00Z until 2024-02-01T00:00:00Z

tenant   user  calls  input  cached  cache write  output       USD  uncertain USD
product            1     10       0            0       5  0.000007       0.000000
team-a   ann       2    100      20            3      50  1.500000       0.000000
total              3    110      20            3      55  1.500007       0.000000
END
run spend -c "$tmp/d/c.yaml" --since 1970-01-01 --by day --tenant team-a
prints 'a row for each day, and one for what has none any more' <<'END'
since the beginning

day         calls             input  cached  cache write  output                   USD  uncertain USD
2024-01-31      2               100      20            3      50              1.500000       0.000000
2024-02-01      5  9007199254741992       1            1     501  9000000000000.000000       0.000000
long ago        4                 1       1            1       1             40.000000       0.000000
total          11  9007199254742093      22            5     552  9000000000000.000000       0.000000
END
run spend -c "$tmp/d/c.yaml" --since 1970-01-01 --until 2022-01-01
prints 'a sum without a date is not cut in two' <<'END'
since the beginning until 2022-01-01T00:00:00Z

tenant  model  calls  input  cached  cache write  output       USD  uncertain USD
total              0      0       0            0       0  0.000000       0.000000
END
run spend -c "$tmp/d/c.yaml" --since 2024-01-31 --until 2024-02-01 --by tenant --json
prints 'the same as JSON' <<'END'
{"since_ms":1706659200000,"until_ms":1706745600000,"rows":[{"tenant":"product","calls":1,"input":10,"cached_input":0,"cache_write":0,"output":5,"micro_usd":7,"usd":"0.000007","uncertain_micro_usd":0},{"tenant":"team-a","calls":2,"input":100,"cached_input":20,"cache_write":3,"output":50,"micro_usd":1500000,"usd":"1.500000","uncertain_micro_usd":0}],"total":{"calls":3,"input":110,"cached_input":20,"cache_write":3,"output":55,"micro_usd":1500007,"usd":"1.500007","uncertain_micro_usd":0},"budgets":[],"credits":[],"damaged":0}
END
sqlite3 "$tmp/d/spend.db" "UPDATE names SET text = CAST('=1+\"a\",b' AS BLOB) WHERE id = 3"
run spend -c "$tmp/d/c.yaml" --since 2024-01-31 --until 2024-02-01 --by user --csv
tr -d '\r' <"$tmp/out" >"$tmp/lines" && mv "$tmp/lines" "$tmp/out"
prints 'CSV, in which no name is a formula' <<'END'
tenant,user,calls,input,cached_input,cache_write,output,micro_usd,usd,uncertain_micro_usd
"product","",1,10,0,0,5,7,0.000007,0
"team-a","'=1+""a"",b",2,100,20,3,50,1500000,1.500000,0
END
make_ledger "$tmp/d/spend.db"
run spend -c "$tmp/d/c.yaml" --since 2024-01-31 --until 2024-02-01 --by model --csv
tr -d '\r' <"$tmp/out" >"$tmp/lines" && mv "$tmp/lines" "$tmp/out"
prints 'by model' <<'END'
model,calls,input,cached_input,cache_write,output,micro_usd,usd,uncertain_micro_usd
"demo-small",3,110,20,3,55,1500007,1.500007,0
END

# ---- What the API has made ----

sqlite3 "$tmp/d/spend.db" "CREATE TABLE admin_tenants (name TEXT PRIMARY KEY, text TEXT NOT NULL, changed_at INTEGER NOT NULL);
CREATE TABLE admin_keys (tenant TEXT NOT NULL, name TEXT NOT NULL, sha256 BLOB NOT NULL,
 not_after INTEGER NOT NULL, made_at INTEGER NOT NULL, PRIMARY KEY (tenant, name));
CREATE TABLE admin_topups (id INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, per INTEGER NOT NULL,
 tz TEXT NOT NULL, micro_usd INTEGER NOT NULL, made_at INTEGER NOT NULL, ends_at INTEGER NOT NULL);
INSERT INTO admin_tenants VALUES ('data-sci', '{\"parent\":\"product\",\"budgets\":[{\"usd\":7,\"per\":\"total\"}]}', 1);
INSERT INTO admin_topups VALUES (1, 'idle', 3, 'UTC', 5000000, 1, 9007199254740991);
INSERT INTO admin_topups VALUES (2, 'idle', 3, 'UTC', 90000000, 1, 2)"
run spend -c "$tmp/d/c.yaml"
sed 1,/^$/d "$tmp/out" | sed 1,/^$/d >"$tmp/budgets" && mv "$tmp/budgets" "$tmp/out"
prints 'D9 tenants and top-ups of the API are in it, but for top-ups that have ended' <<'END'
budget      per    zone  since                     spent USD       of USD
(everyone)  total  UTC   the beginning  9000000000000.000000  1000.500000
team-a      total  UTC   the beginning  9000000000000.000000     3.000000
idle        total  UTC   the beginning              0.000000     5.000001
data-sci    total  UTC   the beginning              0.000000     7.000000
END
run spend -c "$tmp/d/c.yaml" --tenant data-sci
expect 'D9 a tenant of the API can be asked for' 0
make_ledger "$tmp/d/spend.db"

# ---- What is uncertain, and was credited ----

sqlite3 "$tmp/d/spend.db" "ALTER TABLE sums ADD COLUMN uncertain INTEGER NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN uncertain INTEGER NOT NULL DEFAULT 0;
UPDATE sums SET uncertain = 1250000 WHERE tenant = 3;
CREATE TABLE credits (id INTEGER PRIMARY KEY AUTOINCREMENT, made_at INTEGER NOT NULL, tenant TEXT NOT NULL,
 user BLOB NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL, micro_usd INTEGER NOT NULL,
 reason TEXT NOT NULL, actor TEXT NOT NULL);
INSERT INTO credits VALUES (1, 1706745600000, 'gone', CAST('ann' AS BLOB), 0, 1, 250000, 'not billed', '10.0.0.1');
PRAGMA user_version = 2"
run spend -c "$tmp/d/c.yaml" --since 2024-01-31 --tenant gone
prints 'uncertain money has a column, and credits a table' <<'END'
since 2024-01-31T00:00:00Z

tenant  model  calls  input  cached  cache write  output       USD  uncertain USD
gone               1      0       0            0       0  1.000000       1.250000
total              1      0       0            0       0  1.000000       1.250000

credit to  user  at                    USD       by        reason
gone       ann   2024-02-01T00:00:00Z  0.250000  10.0.0.1  not billed
END
run spend -c "$tmp/d/c.yaml" --since 2024-01-31 --tenant gone --json
prints 'and both are in the JSON' <<'END'
{"since_ms":1706659200000,"rows":[{"tenant":"gone","model":"","calls":1,"input":0,"cached_input":0,"cache_write":0,"output":0,"micro_usd":1000000,"usd":"1.000000","uncertain_micro_usd":1250000}],"total":{"calls":1,"input":0,"cached_input":0,"cache_write":0,"output":0,"micro_usd":1000000,"usd":"1.000000","uncertain_micro_usd":1250000},"budgets":[],"credits":[{"id":1,"made_at_ms":1706745600000,"tenant":"gone","user":"ann","micro_usd":250000,"reason":"not billed","actor":"10.0.0.1"}],"damaged":0}
END
make_ledger "$tmp/d/spend.db"

# ---- Where the ledger is ----

case $TOLLGATE in
/*) program=$TOLLGATE ;;
*) program=$PWD/$TOLLGATE ;;
esac
(cd "$tmp/d" && "$program" spend -c c.yaml --since 7d >out 2>err) &&
    ok 'a path begins at the file that names it: from its own folder' ||
    not_ok 'a path begins at the file that names it' "$(cat "$tmp/d/err")"
printf 'include: [d/l.yaml]\n' >"$tmp/top.yaml"
printf 'ledger: {path: spend.db}\n' >"$tmp/d/l.yaml"
run spend -c "$tmp/top.yaml"
expect 'also if that is an included file' 0
printf 'tenants: []\n' >"$tmp/d/none.yaml"
run spend -c "$tmp/d/none.yaml"
expect 'by default it is tollgate.db beside the configuration' 1 "$tmp/d/tollgate.db: there is no ledger"
[ ! -e "$tmp/d/tollgate.db" ] && ok 'and looking makes none' || not_ok 'and looking makes none'
printf 'include: [d/m.yaml]\n' >"$tmp/top.yaml"
printf 'ledger: {detail: 1d}\n' >"$tmp/d/m.yaml"
run spend -c "$tmp/top.yaml"
expect 'beside the first, whoever has the rest of it' 1 "$tmp/tollgate.db: there is no ledger"
printf 'ledger: {path: "${TG_NOT_SET}.db"}\n' >"$tmp/d/var.yaml"
run spend -c "$tmp/d/var.yaml"
expect 'a path with a variable that is not set is none' 2 'ledger.path holds a variable'
printf 'ledger: {path: "%s/d/spend.db"}\n' "$tmp" >"$tmp/abs.yaml"
run spend -c "$tmp/abs.yaml"
expect 'a path may begin at the root' 0
printf 'ledger: {path: ":memory:"}\n' >"$tmp/mem.yaml"
run spend -c "$tmp/mem.yaml"
expect 'memory keeps nothing' 1 'keeps nothing to read'
printf 'ledger: {path: ""}\n' >"$tmp/empty.yaml"
run spend -c "$tmp/empty.yaml"
expect 'an empty path is an error' 2 'ledger.path is empty'

# ---- What is wrong ----

run spend -c "$tmp/d/c.yaml" --tenant nobody
expect 'an unknown tenant: the answer is no' 1 "there is no tenant 'nobody'" 'team-a, product, idle'
run spend -c "$tmp/d/c.yaml" --since yesterday
expect '--since takes a duration or a time' 2 "--since is 'yesterday'" 'such as 7d'
for since in 7 2026-13-01 2024-01-311 '' -7d; do
    run spend -c "$tmp/d/c.yaml" --since "$since"
    expect "--since '$since'" 2 '--since'
done
run spend -c "$tmp/d/c.yaml" --until tomorrow
expect '--until takes the same' 2 "--until is 'tomorrow'" 'such as 7d'
run spend -c "$tmp/d/c.yaml" --by provider
expect '--by takes what the ledger keeps' 2 "--by is 'provider'" 'day, model, tenant, user, key or tag'
run spend -c "$tmp/d/c.yaml" --csv --json
expect 'one form at a time' 2 '--json and --csv'
for arguments in '' '--json' '-c' '-c a b' '--tenant a' '-c a --users'; do
    # shellcheck disable=SC2086
    run spend $arguments
    expect "spend $arguments" 2 'tollgate spend: '
done
run spend -c "$tmp/nothing.yaml"
expect 'a configuration that is not there' 2 'No such file'
printf 'ledger: {failure: maybe}\n' >"$tmp/bad.yaml"
run spend -c "$tmp/bad.yaml"
expect 'a configuration that is wrong' 2 'bad.yaml:1:19' 'open | closed'

make_ledger "$tmp/d/tollgate.db"
sqlite3 "$tmp/d/tollgate.db" 'PRAGMA user_version = 3'
run spend -c "$tmp/d/none.yaml"
expect 'a newer ledger is refused' 1 'ledger of version 3' 'knows versions up to 2'
make_ledger "$tmp/d/tollgate.db"
sqlite3 "$tmp/d/tollgate.db" 'UPDATE ledger SET closed = 0'
run spend -c "$tmp/d/none.yaml"
expect 'a ledger without its journal is refused' 1 'tollgate.db.spend, the journal of the ledger'
rm -f "$tmp/d/tollgate.db"*
echo 'this is no database, whatever its name may be' >"$tmp/d/tollgate.db"
run spend -c "$tmp/d/none.yaml"
expect 'a file that is no database is refused' 1 'file is not a database' 'restore it'
finish
