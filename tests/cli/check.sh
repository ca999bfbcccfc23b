#!/bin/sh
# check.sh - `tollgate check`: what is good, what is wrong, where, and in which words.
#
# TOLLGATE is the program.
set -u
. tools/tap.sh

export LC_ALL=C # one of the files is no text

case $TOLLGATE in
/*) tollgate=$TOLLGATE ;;
*) tollgate=$PWD/$TOLLGATE ;;
esac
unset TG_NOT_SET
export TG_LIMIT=25 TG_WORD=open-sesame

# check_file FILE: leaves stdout, stderr and the status in $scratch.
check_file() {
    (cd "$scratch" && "$tollgate" check -c "$1" >out 2>err)
    echo $? >"$scratch/status"
}

# expect NAME STATUS ERRORS WARNINGS PLACE WORDS
expect() {
    if [ "$(cat "$scratch/status")" = "$2" ] &&
        [ "$(grep -c '^c.yaml:[0-9]*:[0-9]*: warning: ' "$scratch/err")" = "$4" ] &&
        [ "$(grep -v warning: "$scratch/err" | grep -c '^c.yaml:[0-9]*:[0-9]*: ')" = "$3" ] &&
        grep -F -q -- "c.yaml:$5: $6" "$scratch/err"; then
        pass "$1"
    else
        fail "$1" "wanted $5: $6
$(cat "$scratch/c.yaml" "$scratch/out" "$scratch/err") status $(cat "$scratch/status")"
    fi
}

# Writes c.yaml without its @, and prints line:column of where that stood.
write_marked() {
    printf '%s\n' "$1" | tr -d @ >"$scratch/c.yaml"
    printf '%s\n' "$1" | awk 'index($0, "@") { print NR ":" index($0, "@"); exit }'
}

# bad WORDS YAML: one error, where the @ is, that begins with these words.
bad() {
    place=$(write_marked "$2")
    check_file c.yaml
    expect "wrong: $1" 1 1 0 "$place" "$1"
}

# warns WORDS YAML: no error, and one warning there.
warns() {
    place=$(write_marked "$2")
    check_file c.yaml
    expect "warns: $1" 0 0 1 "$place" "warning: $1"
}

# good NAME YAML: nothing to say.
good() {
    printf '%s\n' "$2" >"$scratch/c.yaml"
    check_file c.yaml
    check "$1" sh -c 'cat "$1/err"; [ "$(cat "$1/status")" = 0 ] && ! [ -s "$1/err" ]' - "$scratch"
}

status_is() {
    echo "status $(cat "$scratch/status")"
    cat "$scratch/err"
    [ "$(cat "$scratch/status")" = "$1" ]
}

# ---- The reference ----

cp examples/reference.yaml "$scratch/c.yaml"
(unset DEMO_KEY_1 && check_file c.yaml)
expect "the reference is accepted, and warns of what is missing" 0 0 7 \
    "$(awk '/DEMO_KEY_1/ { print NR ":" index($0, "\"$") }' "$scratch/c.yaml")" \
    "warning: the environment variable DEMO_KEY_1 is not set"
check "the summary says what is on" grep -q '^concurrency on, vegas$' "$scratch/out"
(cd "$scratch" && touch server.pem server.key ca.pem admin.token k2.txt ratelimit.yaml)
(export DEMO_KEY_1=x && check_file c.yaml)
check "with files and variables there is no warning" sh -c '! grep . "$1/err"' - "$scratch"

# ---- Syntax ----

bad 'not YAML: did not find expected' 'gate: {
  lease_ttl: 5s
version@: 1'
bad 'not YAML: found character that cannot start any token' 'gate:
@	peers: {}'
bad 'the key "gate" is given twice, first in line 1' 'gate: {}
version: 1
@gate: {}'
bad 'the key "limit" is given twice' 'gate: {peers: {limit: 1, @limit: 2}}'
bad 'a second document begins' 'version: 1
@---
version: 1'
bad 'an anchor (&) is not allowed' 'gate: @&x {}'
no_tag='a tag (!) or alias (*) is not allowed; put quotes around a text that begins with'
bad "$no_tag" 'tenants: [{name: a, models: @*x}]'
bad "$no_tag" 'tenants: [{name: a, models: [@*]}]'
bad "$no_tag" 'tenants: [{name: a, models: [@!demo]}]'
bad "$no_tag" 'tenants: [{name: a, models: [@!demo , x]}]'
bad 'the file is empty' '@'
bad 'the file is a list' '@[1, 2]'
bad 'the file is a text' '@hello'
bad 'not a text: ' "version: @$(printf '\377')"
bad 'a list or map stands where a key is wanted' '? @[a]
: b'
bad 'a text holds the character 0' 'store_prefix: @"a\0b"'

# ---- Keys and types ----

bad 'there is no key "gates"; there are version, listen, workers, include,' '@gates: {}'
bad 'gate has no key "peer"; it takes charging, lease_ttl, concurrency, queue,' 'gate:
  @peer: {}'
bad 'gate.peers has no key "limits"; it takes limit, max_peers, mode' 'gate: {peers: {@limits: 1}}'
bad 'gate.peers is empty; it must be a section of keys, or {}' 'gate:
  peers:@'
bad 'gate.peers is a text; it must be a section' 'gate: {peers: @on}'
bad 'gate.peers.limit is "many"; it must be a whole number from 1 up' 'gate: {peers: {limit: @many}}'
bad 'gate.peers.limit is "64" in quotes, a text; it must be' 'gate: {peers: {limit: @"64"}}'
bad 'gate.peers.limit is "0"; it must be' 'gate: {peers: {limit: @0}}'
bad 'gate.peers.limit is "-1"; it must be' 'gate: {peers: {limit: @-1}}'
bad 'gate.peers.limit is "1.5"; it must be' 'gate: {peers: {limit: @1.5}}'
bad 'gate.peers.limit is "9007199254740992"; it must be' 'gate: {peers: {limit: @9007199254740992}}'
bad 'gate.peers.limit is a list; it must be a whole' 'gate: {peers: {limit: @[1]}}'
bad 'version is "2"; it must be 1' 'version: @2'
bad 'workers is "x"; it must be a whole number from 0 to 1024' 'workers: @x'
bad 'tenants is not a list' 'tenants: @{name: a}'
bad 'models is not a map' 'models: @[a]'
bad 'tenants[0] is a text; it must be a section' 'tenants: [@a]'
bad 'log.level is "loud"; it must be one of debug | info | warn | error' 'log: {level: @loud}'
bad 'two_tier.enabled is "yes"; it must be true or false' 'two_tier: {enabled: @yes}'
bad 'store_prefix is "null"; it must be a name' 'store_prefix: @null'
bad 'providers has a name that is none' 'providers: {@"": {base_url: "http://h", api: openai}}'

# ---- Values ----

bad 'gate.lease_ttl is "600", a number without a unit; it must be a duration' 'gate: {lease_ttl: @600}'
bad 'gate.lease_ttl is "5 s"; it must be a duration such as 10ms, 5s, 2m, 1h, 30d' 'gate: {lease_ttl: @5 s}'
bad 'gate.lease_ttl is "0ms"; it must be a duration' 'gate: {lease_ttl: @0ms}'
bad 'gate.queue.wait.high is "100", a number without a unit' \
    'gate: {queue: {wait: {high: @100}}, concurrency: {}}'
bad 'limits.body is "32", a number without a unit; it must be a size' 'limits: {body: @32}'
bad 'limits.body is "32MB"; it must be a size' 'limits: {body: @32MB}'
bad 'gate.low_priority_shed_ratio is "1.5"; it must be a number from 0 to 1' \
    'gate: {low_priority_shed_ratio: @1.5, concurrency: {}}'
bad 'listen.admin is "localhost"; it must be an address HOST:PORT' 'listen: {admin: @localhost}'
bad 'trust_headers_from[0] is "10.0.0.0/33"; it must be a network' 'trust_headers_from: [@10.0.0.0/33]'
bad 'store is not one; it must be memory or an address' 'store: @redis:hunter2'
bad 'budgets[0].usd is "1.0000001"; it must be an amount in USD' 'budgets: [{usd: @1.0000001, per: day}]'
bad 'budgets[0]: per is missing; it must be given' 'budgets: [@{usd: 1}]'
bad 'tenants[0].keys[0].sha256 is "abc"; it must be 64 hexadecimal digits' \
    'tenants: [{name: a, keys: [{sha256: @abc}]}]'
bad 'tenants[0].users.from is "cookie"; it must be header:NAME' 'tenants: [{name: a, users: {from: @cookie}}]'
bad '"${1}" has a variable that is none' 'gate: {peers: {limit: @"${1}"}}'
bad 'gate.peers.limit is "${TG_WORD}"; it must be' 'gate: {peers: {limit: @"${TG_WORD}"}}'

# ---- Laws, limiters, policy ----

bad 'gate.concurrency.law is "auto", which is not available yet; it must be one of vegas | gradient2 | aimd | fixed | none' \
    'gate: {concurrency: {law: @auto}}'
bad 'gate.policy.kind is "bid-price", which is not available yet; it must be none' \
    'gate: {policy: {kind: @bid-price}}'
bad 'gate.concurrency: ' 'gate: {concurrency: @{min: 10, initial: 5}}'
bad 'gate.concurrency: ' 'gate: {concurrency: @{vegas: {alpha: 9, beta: 3}}}'
bad 'gate.rate: strategy is missing; it must be one of gcra' 'gate: {rate: @{limit: 5}}'
bad 'gate.rate.strategy is "leaky"; it must be one of gcra | token_bucket' 'gate: {rate: {strategy: @leaky}}'
bad 'gate.rate: period is missing; gcra needs it' 'gate: {rate: @{strategy: gcra, limit: 5}}'
bad 'gate.rate has no key "window" with the strategy gcra; it takes strategy, limit, period, burst, mode' \
    'gate: {rate: {strategy: gcra, limit: 5, @window: 5s, period: 1s}}'
bad 'gate.rate.period is "60", a number without a unit' \
    'gate: {rate: {strategy: gcra, limit: 5, period: @60}}'
bad 'gate.rate.limit is "0"; it must be a whole number from 1' \
    'gate: {rate: {strategy: gcra, limit: @0, period: 6s}}'
bad 'gate.rate.strategy is "token_budget", a meter of cost; on the rate axis it must be another one' \
    'gate: {rate: {strategy: @token_budget, budget: 5, window: 5s}}'
bad 'gate.rate: sliding_log: ' 'gate: {rate: @{strategy: sliding_log, limit: 9007199254740991, window: 30d}}'
bad 'gate.memory: pressure is 0.9, critical 0.8' 'gate: {memory: @{pressure: 0.9, critical: 0.8}}'
bad 'models.m.concurrency: ' 'providers: {p: {base_url: "http://h", api: openai}}
models: {m: {provider: p, concurrency: @{min: 10, initial: 5}}}'

# ---- References ----

bad 'the parent "b" does not exist; it must be the name of a tenant' 'tenants: [{name: a, parent: @b}]'
bad 'the tenant "a" is its own parent' 'tenants: [{name: a, parent: @a}]'
bad 'the tenant "b" is its own parent by way of "a"; parents must not go in a circle' \
    'tenants: [{name: a, parent: b}, {name: b, parent: @a}]'
bad 'the tenant "e" has 4 parents above it; up to 4 levels are allowed' \
    'tenants: [{name: e, parent: @d}, {name: a}, {name: b, parent: a}, {name: c, parent: b}, {name: d, parent: c}]'
bad 'the tenant "a" is there twice, first in c.yaml:1; each name' 'tenants: [{name: a},
    {name: @a}]'
bad 'tenants[0]: name is missing' 'tenants: [@{weight: 2}]'
bad 'tenants[0].limits[0] limits nothing; it must have one or more of rpm, rph, rpd, tpm, tph, tpd' \
    'tenants: [{name: a, limits: [@{mode: shadow}]}]'
h=5e0c7ed5e3b5ef5a3c4c2f4f7f6b3a2a1d0e9c8b7a6f5e4d3c2b1a0f9e8d7c6b
bad 'the key is that of the tenant "a" too; a key is allowed once' "tenants:
  - {name: a, keys: [{sha256: $h}]}
  - {name: b, keys: [{sha256: @$h}]}"
p='providers: {p: {base_url: "http://h", api: openai}, q: {base_url: "http://h", api: anthropic}}'
bad 'the provider "x" does not exist; it must be one of the providers' "$p
models: {m: {provider: @x}}"
bad 'the fallback "n" does not exist; it must be one of the models' "$p
models: {m: {provider: p, fallback: [@n]}}"
bad 'the cheaper model "n" does not exist' "$p
models: {m: {provider: p, cheaper: @n}}"
bad 'the fallback of "m" is itself' "$p
models: {m: {provider: p, fallback: [@m]}}"
bad 'the fallback "n" speaks the API anthropic; it must be one that speaks openai' "$p
models: {m: {provider: p, fallback: [@n]}, n: {provider: q}}"
bad 'the model "x" does not exist; it must be one of the models' "$p
models: {m: {provider: p}}
aliases: {a: @x}"
bad 'the alias "m" is the name of a model' "$p
models: {m: {provider: p}}
aliases: {@m: m}"
bad 'the model "x" does not exist; it must be one of the models or aliases' "$p
models: {m: {provider: p}}
tenants: [{name: a, models: [@x]}]"
bad 'the model "x" does not exist; it must be one of the models or aliases' "$p
models: {m: {provider: p}}
tenants: [{name: a, limits: [{models: [\"m\", @\"!x\"], rpm: 1}]}]"
bad 'the provider "x" does not exist' "$p
passthrough: [{path: /a, provider: @x}]"
bad 'the group "g" does not exist; it must be one of the groups of the provider "p"' \
    'providers: {p: {base_url: "http://h", api: openai, groups: {f: {rpm: 1}},
  keys: [{name: k, secret: "file:/dev/null", group: @g}]}}'

# ---- Warnings ----

warns 'the environment variable TG_NOT_SET is not set' 'gate: {peers: {limit: @"${TG_NOT_SET}"}}'
warns 'admin_auth.token: the file none.txt cannot be read' 'admin_auth: {token: @"file:none.txt"}'
warns 'admin_auth.token is a secret that stands in the file' 'admin_auth: {token: @hunter2}'
warns 'gate.queue has no effect without gate.concurrency' 'gate: {@queue: {size: 5}}'
warns 'the pattern "x*" matches none of the models and aliases' "$p
models: {m: {provider: p}}
tenants: [{name: a, models: [@\"x*\"]}]"
check "a secret is never shown" sh -c '! grep -r -F -e hunter2 -e open-sesame "$1/err"' - "$scratch"

# ---- What is good ----

good "nothing but a version" 'version: 1'
good "empty sections take their defaults" 'gate: {peers: {}, concurrency: {}, memory: {}, queue: {}}'
good "a variable may be a number" 'gate: {peers: {limit: "${TG_LIMIT}"}}'
good "a small fixed limit needs no min" 'gate: {concurrency: {law: fixed, initial: 1}}'
good "a small limit without a law needs no min" 'gate: {concurrency: {law: none, max: 2}}'
good "models need not be listed where there is no such section" \
    'tenants: [{name: a, models: [x], limits: [{models: ["y"], rpm: 1}]}]'
good "a mode for every limit" 'gate:
  rate: {strategy: sliding_window, limit: 5, window: 1m, mode: shadow}
  cost: {strategy: token_budget, budget: 5, window: 1d, mode: shadow}
tenants:
  - {name: a, mode: shadow, limits: [{tpd: 5, mode: shadow}], budgets: [{usd: 0.5, per: week, mode: shadow}]}'
good "an include that matches nothing" 'include: [none.d/*.yaml]'

# ---- Several files ----

mkdir "$scratch/t.d"
printf 'tenants: [{name: b, parent: a}]\n' >"$scratch/t.d/1.yaml"
printf '# nothing yet\n' >"$scratch/t.d/2.yaml"
printf 'tenants: [{name: a}]\ninclude: [t.d/*.yaml]\n' >"$scratch/c.yaml"
check_file c.yaml
check "tenants of included files are added" grep -q '^tenants     2$' "$scratch/out"
printf 'gate: {}\ninclude: []\ntenants: [{name: a, weight: x}]\n' >"$scratch/t.d/3.yaml"
printf 'gate: {}\ntenants: [{name: a}]\ninclude: [t.d/*.yaml]\n' >"$scratch/c.yaml"
check_file c.yaml
cat >"$scratch/want" <<'END'
t.d/3.yaml:1:1: gate is given twice, first in c.yaml:1; it may stand in one file
t.d/3.yaml:2:1: an included file includes others; only the first file may
t.d/3.yaml:3:18: the tenant "a" is there twice, first in c.yaml:2; each name is allowed once
t.d/3.yaml:3:29: tenants[0].weight is "x"; it must be a number from 1e-06 to 1000000
tollgate check: 4 errors, 0 warnings
END
same "mistakes in an included file are told with its name" "$scratch/want" "$scratch/err"
printf '%s\n' 'include: [t.d/4.yaml]' >"$scratch/c.yaml"
printf '{\n' >"$scratch/t.d/4.yaml"
check_file c.yaml
check "a malformed included file is an error" sh -c 'grep "^t.d/4.yaml:2:1: not YAML" "$1/err"' - "$scratch"

# ---- Everything at once, in order ----

printf 'tenants: [{nam: a}]\nworkers: -1\ngate: {lease_ttl: 5, peers: {limit: x}}\n' >"$scratch/c.yaml"
check_file c.yaml
cut -d' ' -f1 "$scratch/err" >"$scratch/got"
printf 'c.yaml:%s:\n' 1:11 1:12 2:10 3:19 3:37 >"$scratch/want"
echo tollgate >>"$scratch/want"
same "all mistakes are told, in the order of the file" "$scratch/want" "$scratch/got"

# ---- The command line ----

check_file none.yaml
check "a file that is not there is status 2" status_is 2
check "and is named" grep -q '^none.yaml: No such file or directory$' "$scratch/err"
check_file .
check "a folder is status 2" status_is 2
for arguments in '' '-c' '-c a -c b' '--file a' '-c a b'; do
    # shellcheck disable=SC2086
    (cd "$scratch" && "$tollgate" check $arguments >out 2>err)
    echo $? >"$scratch/status"
    check "check $arguments: status 2" status_is 2
done

finish
