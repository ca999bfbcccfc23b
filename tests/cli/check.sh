#!/bin/sh
# check.sh - `tollgate check`: what is good, what is wrong, where, and in which words.
#
# TOLLGATE is the program.
set -u
. "$(dirname "$0")/../lib/tap"

. tests/cli/checking

# ---- The reference ----

cp examples/reference.yaml "$tmp/c.yaml"
(unset DEMO_KEY_1 && check_file c.yaml)
expect "the reference is accepted, and warns of what is missing" 0 0 7 \
    "$(awk '/DEMO_KEY_1/ { print NR ":" index($0, "\"$") }' "$tmp/c.yaml")" \
    "warning: the environment variable DEMO_KEY_1 is not set"
check "the summary says what is on" grep -q '^concurrency on, none$' "$tmp/out"
(cd "$tmp" && touch server.pem server.key ca.pem && echo 'domain: d' >ratelimit.yaml &&
    echo a-token-of-an-administrator >admin.token && echo secret >k2.txt)
(export DEMO_KEY_1=x && check_file c.yaml)
check "with files and variables nothing is missing" \
    sh -c 'cat "$1/err"; [ "$(cat "$1/status")" = 0 ] && ! [ -s "$1/err" ]' - "$tmp"

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
bad 'a list or map is in the place of a key' '? @[a]
: b'
bad 'a text holds a zero character' 'store_prefix: @"a\0b"'

# ---- Keys and types ----

bad 'there is no key "gates"; there are version, listen, workers, drain, include,' '@gates: {}'
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
bad 'providers has a name that is not allowed' 'providers: {@"": {base_url: "http://h", api: openai}}'

# ---- Values ----

bad 'gate.lease_ttl is "600", a number without a unit; it must be a duration' 'gate: {lease_ttl: @600}'
bad 'gate.lease_ttl is "5 s"; it must be a duration such as 10ms, 5s, 2m, 1h, 30d' 'gate: {lease_ttl: @5 s}'
bad 'gate.lease_ttl is "0ms"; it must be a duration' 'gate: {lease_ttl: @0ms}'
bad 'drain is "0s"; it must be a duration such as 10ms, 5s, 2m, 1h, 30d, at least 1ms' 'drain: @0s'
bad 'gate.queue.wait.high is "100", a number without a unit' \
    'gate: {queue: {wait: {high: @100}}, concurrency: {}}'
bad 'limits.body is "32", a number without a unit; it must be a size' 'limits: {body: @32}'
bad 'limits.body is "32MB"; it must be a size' 'limits: {body: @32MB}'
bad 'gate.low_priority_shed_ratio is "1.5"; it must be a number from 0 to 1' \
    'gate: {low_priority_shed_ratio: @1.5, concurrency: {}}'
bad 'listen.admin is "localhost"; it must be an address HOST:PORT' 'listen: {admin: @localhost}'
bad 'trust_headers_from[0] is "10.0.0.0/33"; it must be a network' 'trust_headers_from: [@10.0.0.0/33]'
bad 'store is not one; it must be memory' 'store: @redis:hunter2'
bad 'store: ' 'store: @redis://h:1/hunter2'
bad 'budgets[0].usd is "1.0000001"; it must be an amount in USD' 'budgets: [{usd: @1.0000001, per: day}]'
bad 'budgets[0]: per is missing; it must be given' 'budgets: [@{usd: 1}]'
bad 'tenants[0].keys[0].sha256 is "abc"; it must be 64 hexadecimal digits' \
    'tenants: [{name: a, keys: [{sha256: @abc}]}]'
bad 'tenants[0].users.from is "cookie"; it must be header:NAME' 'tenants: [{name: a, users: {from: @cookie}}]'
bad '"${1}" has a variable without a name' 'gate: {peers: {limit: @"${1}"}}'
bad 'gate.peers.limit is "${TG_WORD}"; it must be' 'gate: {peers: {limit: @"${TG_WORD}"}}'

# ---- Laws, limiters, policy ----

bad 'gate.concurrency.law is "tahoe"; it must be one of vegas | gradient2 | aimd | fixed | none | auto' \
    'gate: {concurrency: {law: @tahoe}}'
bad 'gate.policy.kind is "best"; it must be one of none | bid-price' 'gate: {policy: {kind: @best}}'
bad 'gate.policy.prices is "cheap"; it must be one of duals | workload | adaptive | online' \
    'gate: {policy: {prices: @cheap}}'
good 'what no policy uses need not fit together' \
    'gate: {policy: {kind: none, workload: {types: [{hold: 3s}]}, online: {}}}'
bad 'gate.concurrency: ' 'gate: {concurrency: @{law: vegas, min: 10, initial: 5}}'
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
models: {m: {price: {}, provider: p, concurrency: @{law: vegas, min: 10, initial: 5}}}'

# ---- Bid prices ----

cost='cost: {strategy: token_bucket, capacity: 9, refill: 1}'
rate='rate: {strategy: gcra, limit: 9, period: 1s}'
slots='concurrency: {}'
types='types: [{cost: 100, value: 1, weight: 500}, {cost: 10000, value: 50, weight: 500}]'
budgets='rate_budget: 1000, cost_budget: 50000'

# policy GATE POLICY: a gate with these other keys, and this policy of bid prices.
policy() {
    printf 'gate:\n  {%s,\n  policy: {kind: bid-price, %s}}' "$1" "$2"
}

good 'the example of a workload' "$(cat examples/bid-price.yaml)"
good 'a workload' "$(policy "$cost" "workload: {$types, $budgets}")"
check "the summary says where prices come from" \
    grep -q '^policy      on, bid-price by workload$' "$tmp/out"
good 'prices that are given' "$(policy "$cost" 'prices: duals, duals: {cost: 0.01}')"
good 'a price of 0 needs no axis' "$(policy "$cost" 'prices: duals, duals: {rate: 0, cost: 1, concurrency: 0}')"
good 'prices for all three axes' "$(policy "$cost, $rate, $slots" 'prices: duals, duals: {rate: 1, cost: 1, concurrency: 1}')"
good 'prices that learn' "$(policy "$cost" "prices: adaptive, workload: {$types, $budgets}, adaptive: {sample_window: 9}")"
good 'prices that learn from given ones' \
    "$(policy "$cost" "prices: adaptive, duals: {cost: 0.01}, workload: {arrivals: 1000, $budgets}")"
good 'prices that move' "$(policy "$cost" 'prices: online, online: {cost_budget: 60}')"
good 'prices that move steadily, with a prior' \
    "$(policy "$cost" "prices: online, mode: shadow, online: {cost_budget: 300, window: 5m, replenish: steady}, workload: {$types, $budgets}")"
check "the summary says that it is in shadow" \
    grep -q '^policy      shadow, bid-price by online$' "$tmp/out"
good 'the cost axis of a tenant is one' "gate: {policy: {kind: bid-price, prices: duals, duals: {cost: 1}}}
tenants: [{name: a, limits: [{tpm: 5}]}]"
good 'the rate axis of users is one' "gate: {$cost, policy: {kind: bid-price, prices: duals, duals: {rate: 1}}}
tenants: [{name: a, users: {from: \"header:x\", each: {rpm: 5}}}]"

bad 'gate.policy.kind is bid-price, which needs a cost axis' \
    'gate: {policy: {kind: @bid-price, prices: duals, duals: {cost: 1}}}'
bad 'gate.policy.duals.rate is 2, and nothing limits the rate; it must be 0' \
    "$(policy "$cost" 'prices: duals, duals: {rate: @2}')"
bad 'gate.policy.duals.concurrency is 0.5, and nothing limits concurrency' \
    "$(policy "$cost" 'prices: duals, duals: {concurrency: @0.5}')"
bad 'gate.policy.duals.cost is "-1"; it must be a number from 0' "$(policy "$cost" 'prices: duals, duals: {cost: @-1}')"
bad 'gate.policy.duals.cost is ".nan"; it must be a number' "$(policy "$cost" 'prices: duals, duals: {cost: @.nan}')"
bad 'gate.policy.duals.cost is ".inf"; it must be a number' "$(policy "$cost" 'prices: duals, duals: {cost: @.inf}')"
bad 'gate.policy.prices is workload, and there is no gate.policy.workload' "$(policy "$cost" 'prices: @workload')"
bad 'gate.policy.workload: types is missing; it must be given, 1 to 256 of them' \
    "$(policy "$cost" "workload: @{$budgets}")"
bad 'gate.policy.workload: types is missing; it must be given, 1 to 256 of them' \
    "$(policy "$cost" "workload: {types: @[], $budgets}")"
bad 'gate.policy.workload: rate_budget is missing' "$(policy "$cost" "workload: @{$types, cost_budget: 5}")"
bad 'gate.policy.workload: cost_budget is missing' "$(policy "$cost" "workload: @{$types, rate_budget: 5}")"
bad 'gate.policy.workload.rate_budget is "0"; it must be a number above 0' \
    "$(policy "$cost" "workload: {$types, rate_budget: @0, cost_budget: 5}")"
bad 'gate.policy.workload.cost_budget is "-5"; it must be a number above 0' \
    "$(policy "$cost" "workload: {$types, rate_budget: 5, cost_budget: @-5}")"
bad 'gate.policy.workload.conc_budget is "0s"; it must be' \
    "$(policy "$cost, $slots" "workload: {types: [{hold: 1s}], $budgets, conc_budget: @0s}")"
bad 'gate.policy.workload.types[1].cost is "-1"; it must be' \
    "$(policy "$cost" "workload: {types: [{cost: 1}, {cost: @-1}], $budgets}")"
bad 'gate.policy.workload.types[0].value is ".nan"; it must be' \
    "$(policy "$cost" "workload: {types: [{value: @.nan}], $budgets}")"
bad 'gate.policy.workload.types[0].weight is "-0.5"; it must be' \
    "$(policy "$cost" "workload: {types: [{weight: @-0.5}], $budgets}")"
bad 'gate.policy.workload.types[1].hold is given without conc_budget; both must be, or neither' \
    "$(policy "$cost, $slots" "workload: {types: [{hold: 0s}, {hold: @3s}], $budgets}")"
bad 'gate.policy.workload.types[1]: hold is missing; with conc_budget it must be given' \
    "$(policy "$cost, $slots" "workload: {types: [{hold: 0s}, @{cost: 2}], $budgets, conc_budget: 5s}")"
bad 'gate.policy.workload.conc_budget is given, and nothing limits concurrency' \
    "$(policy "$cost" "workload: {types: [{hold: 1s}], $budgets, conc_budget: @5s}")"
bad 'gate.policy.workload.arrivals is "0"; it must be a whole number from 1' \
    "$(policy "$cost" "workload: {arrivals: @0, $types, $budgets}")"
bad 'gate.policy: workload.' "$(policy "$cost" "workload: {arrivals: 5, types: [{weight: 0}], $budgets}" | sed 's/policy: {/policy: @{/')"
bad 'gate.policy.workload: types is missing; it must be given, or duals: adaptive needs prices to start from' \
    "$(policy "$cost" "prices: adaptive, workload: @{arrivals: 5, $budgets}")"
bad 'gate.policy.workload: arrivals is missing; it must be given, where there are no types' \
    "$(policy "$cost" "prices: adaptive, duals: {cost: 1}, workload: @{$budgets}")"
bad 'gate.policy.prices is adaptive, and there is no gate.policy.workload' \
    "$(policy "$cost" 'prices: @adaptive, duals: {cost: 1}')"
good 'budgets of moving prices come from the limits' "$(policy "$cost" 'prices: online')"
good 'a window of its own too' "$(policy "$cost" 'prices: online, online: {window: 5s}')"
bad 'gate.policy.online: it has no budget, and there is a tenant without a limit' \
    "gate: {policy: {kind: bid-price, prices: online, online: @{window: 5s}}}
tenants: [{name: a, cost: {strategy: token_bucket, capacity: 9, refill: 1}}, {name: b}]"
warns 'gate.policy.online.cost_budget is 10 in 10 s, and the limits let through 20, of all tenants together; the policy refuses calls that no limit would' \
    "gate: {$cost, policy: {kind: bid-price, prices: online, online: {window: 10s, cost_budget: @10}}}
tenants: [{name: a}, {name: b}, {name: c, parent: a}]"
warns 'gate.policy.online.cost_budget is 100 in 10 s, and the limits let through 10, of all tenants together; the policy counts on what the limits refuse' \
    "$(policy "$cost" 'prices: online, online: {window: 10s, cost_budget: @100}')"
good 'budgets that agree with the limits' "gate: {$cost, policy: {kind: bid-price, prices: online, online: {window: 10s, cost_budget: 20}}}
tenants: [{name: a}, {name: b}]"
bad 'gate.policy.online.rate_budget is "0"; it must be a number above 0' \
    "$(policy "$cost" 'prices: online, online: {rate_budget: @0}')"
bad 'gate.policy.online.window is "0s"; it must be' "$(policy "$cost" 'prices: online, online: {cost_budget: 1, window: @0s}')"
bad 'gate.policy.online.conc_budget is given, and nothing limits concurrency' \
    "$(policy "$cost" 'prices: online, online: {conc_budget: @5s}')"
bad 'gate.policy.online.replenish is "daily"; it must be one of window | steady' \
    "$(policy "$cost" 'prices: online, online: {cost_budget: 1, replenish: @daily}')"
warns 'gate.policy.workload: everything fits into the budgets, so all prices are 0 and the policy refuses nothing; weights are counts unless' \
    "$(policy "$cost" "workload: @{types: [{cost: 100, weight: 0.5}, {cost: 10000, value: 50, weight: 0.5}], $budgets}")"
warns 'gate.policy.workload: everything fits into the budgets' \
    "$(policy "$cost" "workload: @{arrivals: 9, $types, $budgets}")"
warns 'gate.policy.duals: all prices are 0; the policy refuses nothing' "$(policy "$cost" 'prices: duals, duals: @{}')"
warns 'gate.policy.workload.rate_budget puts a price of 1 on each call, and nothing limits the rate' \
    "$(policy "$cost" "workload: {types: [{weight: 5}], rate_budget: @3, cost_budget: 100}")"
warns 'the environment variable TG_NOT_SET is not set' \
    "$(policy "$cost" "workload: {$types, rate_budget: @\"\${TG_NOT_SET}\", cost_budget: 5}")"

# ---- References ----

bad 'the parent "b" does not exist; it must be the name of a tenant' 'tenants: [{name: a, parent: @b}]'
bad 'the tenant "a" is its own parent' 'tenants: [{name: a, parent: @a}]'
bad 'the tenant "b" is its own parent by way of "a"; parents must not go in a circle' \
    'tenants: [{name: a, parent: b}, {name: b, parent: @a}]'
bad 'the tenant "e" has 4 parents above it; up to 4 levels are allowed' \
    'tenants: [{name: e, parent: @d}, {name: a}, {name: b, parent: a}, {name: c, parent: b}, {name: d, parent: c}]'
bad 'the tenant "a" is defined twice, first in c.yaml:1; each name' 'tenants: [{name: a},
    {name: @a}]'
bad 'tenants[0]: name is missing' 'tenants: [@{weight: 2}]'
bad 'tenants[0].limits[0] limits nothing; it must have one or more of rpm, rph, rpd, tpm, tph, tpd' \
    'tenants: [{name: a, limits: [@{mode: shadow}]}]'
h=5e0c7ed5e3b5ef5a3c4c2f4f7f6b3a2a1d0e9c8b7a6f5e4d3c2b1a0f9e8d7c6b
bad 'the tenant "a" has the same key; a key is allowed once' "tenants:
  - {name: a, keys: [{sha256: $h}]}
  - {name: b, keys: [{sha256: @$h}]}"
p='providers: {p: {base_url: "http://h", api: openai}, q: {base_url: "http://h", api: anthropic}}'
one='providers: {p: {base_url: "http://h", api: openai}}'
bad 'the provider "x" does not exist; it must be one of the providers' "$p
models: {m: {price: {}, provider: @x}}"
bad 'the fallback "n" does not exist; it must be one of the models' "$p
models: {m: {price: {}, provider: p, fallback: [@n]}}"
bad 'the cheaper model "n" does not exist' "$p
models: {m: {price: {}, provider: p, cheaper: @n}}"
bad 'the fallback of "m" is itself' "$p
models: {m: {price: {}, provider: p, fallback: [@m]}}"
good 'a preset stands for an address and an API' \
    'providers: {p: {preset: gemini}, q: {preset: vllm, base_url: "http://h"}}'
bad 'providers.p: base_url is missing; it must be given, here or at each key, or a preset that has one' \
    'providers: {p: @{preset: vllm}}'
good 'each key has an address of its own' \
    'providers: {p: {preset: vllm, keys: [{name: k, secret: "${TG_WORD}", base_url: "http://h"}]}}'
bad 'providers.p: base_url is missing; it must be given, here or at each key, or a preset that has one' \
    'providers: {p: @{preset: vllm, keys: [{name: k, secret: "${TG_WORD}", base_url: "http://h"}, {name: l, secret: "${TG_WORD}"}]}}'
bad 'providers.p.auth is "azure"; it must be one of header | gcp | aws' \
    'providers: {p: {preset: openai, auth: @azure}}'
bad 'providers.p.keys[0]: secret is missing; it must be given' \
    'providers: {p: {preset: openai, keys: [@{name: k}]}}'
bad 'providers.p.keys[0].access_key is for auth: aws alone' \
    'providers: {p: {preset: openai, keys: [{name: k, secret: "${TG_WORD}", access_key: @A}]}}'
bad 'providers.p.keys[0].service_account is for auth: gcp alone' \
    'providers: {p: {preset: openai, keys: [{name: k, secret: "${TG_WORD}", service_account: @"${TG_WORD}"}]}}'
bad 'providers.p: region is missing; bedrock needs it' \
    'providers: {p: @{preset: bedrock, keys: [{name: k, secret: "${TG_WORD}", access_key: A}]}}'
bad 'providers.p.region is "us/../x"; it must be letters, digits, and any of - _ . :' \
    'providers: {p: {preset: bedrock, region: @us/../x, keys: [{name: k, secret: "${TG_WORD}", access_key: A}]}}'
bad 'providers.p.keys[0]: access_key is missing; auth: aws needs it' \
    'providers: {p: {preset: bedrock, region: r, keys: [@{name: k, secret: "${TG_WORD}"}]}}'
good 'an API key of Bedrock' \
    'providers: {p: {preset: bedrock, region: r, auth: {header: authorization}, keys: [{name: k, secret: "${TG_WORD}"}]}}'
bad 'providers.p.region is for auth: aws and preset: bedrock alone' \
    'providers: {p: {preset: openai, region: @r}}'
bad 'providers.p: project is missing; vertex needs it' \
    'providers: {p: @{preset: vertex, location: l}}'
bad 'providers.p.api: preset: vertex is known to speak gemini and anthropic' \
    'providers: {p: {preset: vertex, project: a, location: l, api: @openai}}'
bad 'providers.p.keys[0]: service_account is missing; auth: gcp needs it' \
    'providers: {p: {preset: vertex, project: a, location: l, keys: [@{name: k}]}}'
bad 'providers.p.keys[0].service_account is not JSON; it must be the JSON of a service account' \
    'providers: {p: {preset: vertex, project: a, location: l, keys: [{name: k, service_account: @"${TG_WORD}"}]}}'
bad 'providers.p.refuses is for api: openai and openai-chat alone' \
    'providers: {p: {preset: anthropic, refuses: @[user]}}'
bad 'models.m.thinking is "much"; it must be one of auto | adaptive | budget | none' "$p
models: {m: {price: {}, provider: p, thinking: @much}}"
bad 'providers.p.project is for preset: vertex alone' \
    'providers: {p: {preset: gemini, project: @a}}'
bad 'providers.p: api is missing; it must be given, or a preset that has one' \
    'providers: {p: @{base_url: "http://h"}}'
good 'a model falls back to one of another API' "$p
models: {m: {price: {}, provider: p, fallback: [n], cheaper: n}, n: {price: {}, provider: q}}"
bad 'the model "x" does not exist; it must be one of the models' "$p
models: {m: {price: {}, provider: p}}
aliases: {a: @x}"
bad 'the alias "m" is the name of a model' "$p
models: {m: {price: {}, provider: p}}
aliases: {@m: m}"
bad 'the model "x" does not exist; it must be one of the models or aliases' "$p
models: {m: {price: {}, provider: p}}
tenants: [{name: a, models: [@x]}]"
bad 'the model "x" does not exist; it must be one of the models or aliases' "$p
models: {m: {price: {}, provider: p}}
tenants: [{name: a, limits: [{models: [\"m\", @\"!x\"], rpm: 1}]}]"
bad 'the provider "x" does not exist' "$p
passthrough: [{path: /a, provider: @x}]"
bad 'the group "g" does not exist; it must be one of the groups of the provider "p"' \
    'providers: {p: {base_url: "http://h", api: openai, groups: {f: {rpm: 1}},
  keys: [{name: k, secret: "${TG_WORD}", group: @g}]}}'

# ---- The server ----

bad 'listen.admin has the same address as listen.gateway; each must have its own' \
    'listen: {gateway: "h:1", admin: @"h:1"}'
good 'port 0 may be asked for twice' 'listen: {gateway: "h:0", probe: "h:0"}'
good 'sockets and every address' 'listen: {gateway: "*:80", probe: "unix:/run/x"}'
bad 'listen.tls: key is missing' 'listen: {tls: @{cert: c.yaml}}'
warns 'listen.tls.client_ca: the file none.pem cannot be read' \
    'listen: {tls: {cert: c.yaml, key: c.yaml, client_ca: @none.pem}}'
bad 'limits: body is 2048B and buffered_total 1024B; buffered_total must be at least as large as body' \
    'limits: @{body: 2KiB, buffered_total: 1KiB}'
bad 'limits.header is "2MiB"; it must be a size such as 64KiB, from 1024B to 1048576B' 'limits: {header: @2MiB}'
bad 'limits.connections is "0"; it must be' 'limits: {connections: @0}'
bad 'trust_headers_from[1] is "::1/129"; it must be a network' 'trust_headers_from: ["::1/128", @"::1/129"]'
bad 'callers[0].may[1] is "money"; it must be one of tenant | peer | priority | value' \
    "callers: [{name: a, token_sha256: $h, may: [peer, @money]}]"
bad 'the token of a caller is given above already; each is allowed once' "callers:
  - {name: a, token_sha256: $h}
  - {name: b, token_sha256: @$(printf %s "$h" | tr a-f A-F)}"
bad 'store_tls has a cert without a key' 'store: redis://h:1
store_tls: @{cert: server.pem}'
bad 'protect[0] has a certificate without a key, or a key without a certificate' \
    'protect: [@{prefix: /a, upstream: "https://h", tls: {key: server.pem}}]'
bad "store_prefix is 'a{b'; it must have no brace in it" 'store: redis://h:1
store_prefix: @"a{b"'
bad 'otlp.endpoint is not one; it must be none or a URL that begins http:// or https://' \
    'otlp: {endpoint: @"ftp://h"}'
good 'traces go somewhere or nowhere' 'otlp: {endpoint: "http://127.0.0.1:4318"}'
warns 'envoy_rls.config: the file none.yaml cannot be read' 'listen: {grpc: "h:1"}
envoy_rls: {config: @none.yaml}'
bad 'envoy_rls: config is missing; it must be given' 'envoy_rls: @{mode: shadow}'
good 'rules of Envoy are files of their own' 'listen: {grpc: "h:1"}
envoy_rls: {config: ratelimit.yaml, headers: true}'
warns 'envoy_rls has no effect without listen.grpc' 'envoy_rls: @{config: ratelimit.yaml}'
warns 'envoy_rls.auth lets nobody ask, since there are no callers' 'listen: {grpc: "h:1"}
envoy_rls: {config: ratelimit.yaml, auth: @callers}'
printf 'domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: fortnight, requests_per_unit: 1}}\n' \
    >"$tmp/wrong.yaml"
echo 'envoy_rls: {config: wrong.yaml}' >"$tmp/c.yaml"
check_file c.yaml
check 'what is wrong with them is told by their own name, line and column' \
    grep -F -x 'wrong.yaml:3:33: descriptors[0].rate_limit.unit is "fortnight"; it must be second, minute, hour, day, week, month or year' "$tmp/err"
bad 'admin_auth.token holds a secret that cannot be sent; it must be 1 to 8000 printable ASCII characters' \
    'admin_auth: {token: @"${TG_LINES}"}'
bad 'otlp.endpoint is not one; it must be none' 'otlp: {endpoint: @h}'
bad 'retry_budget.min_per_s is "0.5"; it must be a whole number' 'retry_budget: {min_per_s: @0.5}'

# ---- Providers, models and other ways ----

# provider YAML: one provider with these keys besides.
provider() {
    printf 'providers: {p: {base_url: "http://h", api: openai, %s}}' "$1"
}

for url in ftp://h h http:// '${TG_URL}' http://h/?a=b http://h/#a http://h:0 'http://h/a b'; do
    bad 'providers.p.base_url is not one; it must be a URL that begins http:// or https://, without user,' \
        "providers: {p: {api: openai, base_url: @\"$url\"}}"
done
warns 'providers.p.base_url ends in /v1, and so every path has it twice' \
    'providers: {p: {api: openai, base_url: @"https://h/v1/"}}'
warns 'providers.p.path_prefix ends in /v1, and so every path has it twice' "$(provider 'path_prefix: @/a/v1')"
bad 'providers.p.api is "cohere"; it must be one of openai | openai-chat' \
    'providers: {p: {base_url: "http://h", api: @cohere}}'
bad 'providers.p.path_prefix is "v1"; it must be a path' "$(provider 'path_prefix: @v1')"
bad 'providers.p.path_prefix is "/a?b"; it must be a path' "$(provider 'path_prefix: @/a?b')"
bad 'providers.p.auth.header is "a b"; it must be the name of a header' "$(provider 'auth: {header: @a b}')"
bad 'providers.p.auth.header is content-length, the gateway'"'"'s own' "$(provider 'auth: {header: @Content-Length}')"
bad 'providers.p.auth.prefix is "a' "$(provider 'auth: {prefix: @"a\nb"}')"
bad 'providers.p.headers.set.x-a is "' "$(provider 'headers: {set: {x-a: @"\r\nx-b: 1"}}')"
bad 'providers.p.headers.set: "x a" is not the name of a header' "$(provider 'headers: {set: {@x a: b}}')"
bad 'providers.p.headers.set: the header Host is the gateway'"'"'s own' "$(provider 'headers: {set: {@Host: b}}')"
bad 'providers.p.headers.set: the header Authorization carries the key' \
    "$(provider 'headers: {set: {@Authorization: b}}')"
bad 'providers.p.headers.set: the header X-A is given twice' "$(provider 'headers: {set: {x-a: b, @X-A: c}}')"
bad 'providers.p.headers.drop[0] is "a:"; it must be the name of a header' "$(provider 'headers: {drop: [@"a:"]}')"
bad 'providers.p.query.a is "' "$(provider 'query: {a: @"\x01"}')"
bad 'providers.p.proxy is not the address of a proxy; it must be none or http://HOST:PORT' \
    "$(provider 'proxy: @"https://h:1"')"
bad 'providers.p.proxy is not one; it must be none or a URL' "$(provider 'proxy: @socks')"
warns 'providers.p.tls.ca: the file none.pem cannot be read' "$(provider 'tls: {ca: @none.pem}')"
bad 'providers.p.stream_usage is "always"; it must be one of never | inject' "$(provider 'stream_usage: @always')"
bad 'providers.p.on_disconnect is "stop"; it must be one of auto | abort | drain' "$(provider 'on_disconnect: @stop')"
bad 'providers.p.groups.g.rpm is "0"; it must be' "$(provider 'groups: {g: {rpm: @0}}')"
bad 'providers.p.keys[0]: secret is missing' "$(provider 'keys: [@{name: k}]')"
bad 'providers.p.keys[1].name is "k", which keys[0] has already; each name is allowed once' \
    "$(provider 'keys: [{name: k, secret: "${TG_WORD}"}, {name: @k, secret: "${TG_WORD}"}]')"
bad 'models.m.keys: the key "k" of the provider "p" is given elsewhere with another secret, address or group' \
    "$(provider 'keys: [{name: k, secret: "${TG_WORD}"}]')
models: {m: {provider: p, price: {}, keys: @[{name: k, secret: \"\${TG_LIMIT}\"}]}}"
good 'S3 a model may have other limits for the same key' "$(provider 'keys: [{name: k, secret: "${TG_WORD}", rpm: 5}]')
models: {m: {provider: p, price: {}, keys: [{name: k, secret: \"\${TG_WORD}\", rpm: 9}]}}"
good 'S3 limits of a key for one model' "$(provider 'keys: [{name: k, secret: "${TG_WORD}", rpm: 5}]')
models: {m: {provider: p, price: {}, key_limits: {k: {rpm: 9, tpm: 100}}}}"
bad 'the key "x" does not exist; it must be one of the keys of the provider "p"' \
    "$(provider 'keys: [{name: k, secret: "${TG_WORD}"}]')
models: {m: {provider: p, price: {}, key_limits: {@x: {rpm: 9}}}}"
bad 'the key "k" does not exist; it must be one of the keys of the model "m"' \
    "$(provider 'keys: [{name: k, secret: "${TG_WORD}"}]')
models: {m: {provider: p, price: {}, keys: [{name: own, secret: \"\${TG_WORD}\"}], key_limits: {@k: {rpm: 9}}}}"
good 'D13 limits of a key for all models together' "$(provider 'keys: [{name: k, secret: "${TG_WORD}", rpm: 5, per: key}]')"
bad 'providers.p.keys[0].per is "all"; it must be one of model | key' \
    "$(provider 'keys: [{name: k, secret: "${TG_WORD}", rpm: 5, per: @all}]')"
bad 'providers.p.keys[0] has both a group and per: key' \
    "$(provider 'groups: {g: {}}, keys: [{name: k, secret: "${TG_WORD}", group: g, per: @key}]')"
bad 'providers.p.groups: "key:k" is what the key "k" with per: key makes for itself' \
    "$(provider 'groups: @{"key:k": {}}, keys: [{name: k, secret: "${TG_WORD}", per: key}]')"
bad 'models.m.keys[0].per is key; that is for keys of a provider' "$p
models: {m: {provider: p, price: {}, keys: @[{name: k, secret: \"\${TG_WORD}\", per: key}]}}"
good 'a model may name the same key' "$(provider 'keys: [{name: k, secret: "${TG_WORD}", rpm: 5}]')
models: {m: {provider: p, price: {}, keys: [{name: k, secret: \"\${TG_WORD}\", rpm: 5}]}}"
bad 'models.m.price.input is "-1"; it must be an amount in USD' "$p
models: {m: {provider: p, price: {input: @-1}}}"
bad 'models.m.overbook: min, start and max are 0.05, 2 and 1.5; none may be below the one before it' "$p
models: {m: {provider: p, price: {}, overbook: @{start: 2, max: 1.5}}}"
bad 'models.m.overbook.min is "0.01"; it must be a number from 0.05 to 3' "$p
models: {m: {provider: p, price: {}, overbook: {min: @0.01}}}"
bad 'models.m.tpm_counts is "all"; it must be one of provider' "$p
models: {m: {provider: p, price: {}, tpm_counts: @all}}"
bad 'gate.rate.overdraft is for limits of tokens; a call is always one call' \
    'gate: {rate: {strategy: gcra, limit: 1, period: 1s, overdraft: @5}}'
bad 'gate.cost.overdraft is "-1"; it must be a whole number from 0 up' \
    'gate: {cost: {strategy: token_bucket, capacity: 1, refill: 1, overdraft: @-1}}'
good 'token limits may have an overdraft' 'gate: {cost: {strategy: gcra, limit: 9, period: 1s, overdraft: 0}}
tenants: [{name: a, limits: [{tpm: 5, overdraft: 100}], users: {from: "header:x-u", each: {tpm: 5, overdraft: 0}}}]'
bad 'models.m.affinity.by[0] is "session", which is not available yet; it must be one of previous_response_id' "$p
models: {m: {provider: p, price: {}, affinity: {by: [@session]}}}"
bad 'models.m.breaker.failures is "1001"; it must be a whole number from 1 to 1000' "$p
models: {m: {provider: p, price: {}, breaker: {failures: @1001}}}"
bad 'models.m.timeouts.idle is "60", a number without a unit' "$p
models: {m: {provider: p, price: {}, timeouts: {idle: @60}}}"
bad 'models.m.concurrency.law is "tahoe"; it must be one of' "$p
models: {m: {provider: p, price: {}, concurrency: {law: @tahoe}}}"
bad 'models.m.on_unbounded is "guess"; it must be one of allow | clamp | refuse' "$p
models: {m: {provider: p, price: {}, on_unbounded: @guess}}"
bad 'models.m.price.factors.service_tier.priority is "0"; it must be a factor from 0.001 to 1000, with at most three decimals' "$p
models: {m: {provider: p, price: {factors: {service_tier: {priority: @0}}}}}"
bad 'models.m.price.factors: "long" is not a length of context; it must be a number of tokens from 1 up' "$p
models: {m: {provider: p, price: {factors: {above_tokens: {@long: 2.0}}}}}"
bad 'models.m.price.factors.above_tokens has more than 4 lengths' "$p
models: {m: {provider: p, price: {factors: {above_tokens: {1: 2, 2: 2, 3: 2, 4: 2, @5: 2}}}}}"
bad 'models.m.price.factors.above_tokens_output: 7 is not among above_tokens; it must be one of them' "$p
models: {m: {provider: p, price: {factors: {above_tokens: {1: 2}, above_tokens_output: {@7: 2}}}}}"
bad 'models.m.tokenizer is "bpe"; it must be one of byte | nfc | nfkc' "$p
models: {m: {provider: p, price: {}, tokenizer: @bpe}}"
bad 'models.m.cut is "goes"; it must be one of stops | runs' "$p
models: {m: {provider: p, price: {}, cut: @goes}}"
warns 'models.m has no price: calls of tenants with a budget are refused, those of others cost nothing; price: {} if it is free' "$one
models: {@m: {provider: p}}"
bad 'unknown_model is "maybe"; it must be one of refuse | allow' 'unknown_model: @maybe'
bad 'passthrough[0].path is "x"; it must be a path' "$p
passthrough: [{path: @x, provider: p}]"
bad 'passthrough[0].path is "/v1/embeddings", which the gateway serves itself; it must be another path' "$p
passthrough: [{path: @/v1/embeddings, provider: p}]"
bad 'the path of a passthrough is given above already; each is allowed once' "$p
passthrough: [{path: /x, provider: p}, {path: @/x, provider: q}]"
bad 'passthrough[0].path is "/v1/fi*"; it must be a path in which * is a whole segment' "$p
passthrough: [{path: @\"/v1/fi*\", provider: p}]"
bad 'passthrough[0].path is "/v1/*x/y"; it must be a path in which * is a whole segment' "$p
passthrough: [{path: @\"/v1/*x/y\", provider: p}]"
bad 'passthrough[0].path is "/v1//files"; it must be a path without a query, escapes, empty segments' "$p
passthrough: [{path: @/v1//files, provider: p}]"
bad 'passthrough[0].path is "/v1/%66iles"; it must be a path without a query, escapes' "$p
passthrough: [{path: @/v1/%66iles, provider: p}]"
bad 'passthrough[0].path is "/v1/files/.."; it must be a path without' "$p
passthrough: [{path: @/v1/files/.., provider: p}]"
bad 'passthrough[0].path is "/v1/files?x"; it must be a path' "$p
passthrough: [{path: @\"/v1/files?x\", provider: p}]"
bad 'passthrough[0].path is "/v1/models/*", which the gateway serves itself' "$p
passthrough: [{path: @\"/v1/models/*\", provider: p}]"
bad 'passthrough[0].path is "/tollgate/v1/x", which the gateway serves itself' "$p
passthrough: [{path: @/tollgate/v1/x, provider: p}]"
bad 'passthrough[1].path is "/v1/files/*/content", and "/v1/files/*" above it takes all of its calls' "$p
passthrough: [{path: \"/v1/files/*\", provider: p}, {path: @\"/v1/files/*/content\", provider: q}]"
bad 'passthrough[0].path is "/v1/files/*", and its calls go to the protected server at "/v1"' "$p
protect: [{prefix: /v1, upstream: \"http://h\"}]
passthrough: [{path: @\"/v1/files/*\", provider: p}]"
bad 'tenants[0].endpoints[0] is "/v1/fi*"; it must be a path such as' "$p
passthrough: [{path: \"/v1/files/*\", provider: p}]
tenants: [{name: a, endpoints: [@\"/v1/fi*\"]}]"
bad 'the endpoint "/v1/x" does not exist; it must be a path of a passthrough' "$p
passthrough: [{path: \"/v1/files/*\", provider: p}]
tenants: [{name: a, endpoints: [\"/v1/files/*\", @/v1/x]}]"
warns 'the endpoint "/v2/*" matches no path of a passthrough' "$one
passthrough: [{path: \"/v1/files/*\", provider: p}]
tenants: [{name: a, endpoints: [\"/v1/files/*\", @\"/v2/*\"]}]"
warns 'no tenant names "/v1/files/*" in its endpoints: nobody may use it' "$one
passthrough: [{path: @\"/v1/files/*\", provider: p}]
tenants: [{name: a, endpoints: [\"!/v1/files/*\"]}]"
warns 'passthrough "/v1/files/*" has no price: calls of the tenant "a", which has a budget, are refused' "$one
passthrough: [{path: @\"/v1/files/*\", provider: p}]
tenants: [{name: a, endpoints: [\"/v1/files/*\"], budgets: [{usd: 1, per: day}]}]"
good 'S7 a prefix is a prefix, below an exact path and above a wider one' "$p
passthrough: [{path: /v1/files/x, provider: p}, {path: \"/v1/files/*\", provider: p}, {path: \"/v1/threads/*/runs\", provider: q}]
tenants: [{name: a, endpoints: [\"/*\", \"!/v1/files/y\"]}]"
bad 'protect[0].upstream is not one; it must be a URL' 'protect: [{prefix: /a, upstream: @h}]'
bad 'the prefix of a protected server is given above already' \
    'protect: [{prefix: /a, upstream: "http://h"}, {prefix: @/a, upstream: "http://i"}]'
bad 'protect[0].priorities: "get /a" is not a method and a path; it must be like "GET /x", or for an RPC' \
    'protect: [{prefix: /a, upstream: "http://h", priorities: {@get /a: high}}]'
good 'the method of an RPC is in its path' \
    'protect: [{prefix: /a, upstream: "http://h", http2: true, priorities: {/a/Get: high}}]'
good 'the example of a server of gRPC' "$(cat examples/protect-grpc.yaml)"
bad 'protect[0].priorities: "GET /ab" is not below the prefix; its path must begin with /a' \
    'protect: [{prefix: /a, upstream: "http://h", priorities: {@GET /ab: high}}]'
bad 'protect[0].priorities.GET /a is "urgent"; it must be one of high | normal | low' \
    'protect: [{prefix: /a, upstream: "http://h", priorities: {GET /a: @urgent}}]'

# ---- Examples ----

for example in openai anthropic azure-openai vllm fallback; do
    check_example() {
        OPENAI_API_KEY=x GEMINI_API_KEY=x OPENAI_API_KEY_1=x OPENAI_API_KEY_2=x ANTHROPIC_API_KEY=x AZURE_OPENAI_API_KEY=x VLLM_API_KEY=x \
            "$tollgate" check -c "examples/$example.yaml" >"$tmp/out" 2>"$tmp/err"
        status=$?
        cat "$tmp/out" "$tmp/err"
        [ $status = 0 ] && ! grep -v "warning: this is the hash of" "$tmp/err"
    }
    check "examples/$example.yaml is good, and has an example's keys" check_example
done

# ---- Warnings ----

warns 'the environment variable TG_NOT_SET is not set' 'gate: {peers: {limit: @"${TG_NOT_SET}"}}'
warns 'admin_auth.token: the file none.txt cannot be read' 'admin_auth: {token: @"file:none.txt"}'
warns 'admin_auth.token is a secret that is written in the file' 'admin_auth: {token: @hunter2-hunter2-hunter2}'
warns 'the pattern "x*" matches none of the models and aliases' "$one
models: {m: {price: {}, provider: p}}
tenants: [{name: a, models: [@\"x*\"]}]"
check "a secret is never shown" sh -c '! grep -r -F -e hunter2 -e open-sesame "$1/err"' - "$tmp"

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

mkdir "$tmp/t.d"
printf 'tenants: [{name: b, parent: a}]\n' >"$tmp/t.d/1.yaml"
printf '# nothing yet\n' >"$tmp/t.d/2.yaml"
printf 'tenants: [{name: a}]\ninclude: [t.d/*.yaml]\n' >"$tmp/c.yaml"
check_file c.yaml
check "tenants of included files are added" grep -q '^tenants     2$' "$tmp/out"
printf 'gate: {}\ninclude: []\ntenants: [{name: a, weight: x}]\n' >"$tmp/t.d/3.yaml"
printf 'gate: {}\ntenants: [{name: a}]\ninclude: [t.d/*.yaml]\n' >"$tmp/c.yaml"
check_file c.yaml
cat >"$tmp/want" <<'END'
t.d/3.yaml:1:1: gate is given twice, first in c.yaml:1; it may be given in one file only
t.d/3.yaml:3:18: the tenant "a" is defined twice, first in c.yaml:2; each name is allowed once
t.d/3.yaml:3:29: tenants[0].weight is "x"; it must be a number from 1e-06 to 1000000
tollgate check: 3 errors, 0 warnings
END
same_files "mistakes in an included file are told with its name" "$tmp/want" "$tmp/err"
printf '%s\n' 'include: [t.d/4.yaml]' >"$tmp/c.yaml"
printf '{\n' >"$tmp/t.d/4.yaml"
check_file c.yaml
check "a malformed included file is an error" sh -c 'grep "^t.d/4.yaml:2:1: not YAML" "$1/err"' - "$tmp"

mkdir "$tmp/many.d"
awk -v folder="$tmp/many.d" 'BEGIN {
    for (i = 0; i < 10000; i++) {
        file = sprintf("%s/%03d.yaml", folder, i / 50)
        if (i % 50 == 0)
            print "tenants:" >file
        printf "  - {name: t%d, limits: [{rpm: 5}], budgets: [{usd: 1, per: day}]}\n", i >file
        if (i % 50 == 49)
            close(file)
    }
}'
printf '%s\n' 'include: [many.d/*.yaml]' >"$tmp/c.yaml"
check_file c.yaml
check "10,000 tenants in 200 files" grep -q '^tenants     10000$' "$tmp/out"

# ---- Everything at once, in order ----

printf 'tenants: [{nam: a}]\nworkers: -1\ngate: {lease_ttl: 5, peers: {limit: x}}\n' >"$tmp/c.yaml"
check_file c.yaml
cut -d' ' -f1 "$tmp/err" >"$tmp/got"
printf 'c.yaml:%s:\n' 1:11 1:12 2:10 3:19 3:37 >"$tmp/want"
echo tollgate >>"$tmp/want"
same_files "all mistakes are told, in the order of the file" "$tmp/want" "$tmp/got"

# ---- The command line ----

check_file none.yaml
check "a file that is not there is status 2" status_is 2
check "and is named" grep -q '^none.yaml: No such file or directory$' "$tmp/err"
check_file .
check "a folder is status 2" status_is 2

# ---- What the documents, the reference and the program say of one thing ----

printf 'gate: {concurrency: {}}\n' >"$tmp/law.yaml"
check_file law.yaml
check 'D12 check prints the law that holds where none is given' grep -qx 'concurrency on, none' "$tmp/out"
check 'D12 the reference of keys has the same default' \
    grep -q '^| `gate.concurrency.law` | .* | `none` |' docs/config.md
for law in vegas gradient2 aimd fixed none auto; do
    printf 'gate: {concurrency: {law: %s}}\n' "$law" >"$tmp/law.yaml"
    check_file law.yaml
    check "D12 the law $law is offered in the reference, and accepted" \
        sh -c 'grep -q "law: none .*$2" examples/reference.yaml && grep -qx "concurrency on, $2" "$1/out"' - \
        "$tmp" "$law"
done
check 'D12 nobody is told to give each gateway half of a limit' \
    sh -c '! grep -rqi "give each half" docs examples'

for arguments in '' '-c' '-c a -c b' '--file a' '-c a b'; do
    # shellcheck disable=SC2086
    (cd "$tmp" && "$tollgate" check $arguments >out 2>err)
    echo $? >"$tmp/status"
    check "check $arguments: status 2" status_is 2
done

finish
