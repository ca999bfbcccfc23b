#!/bin/sh
# check_warnings.sh - `tollgate check`: limits that cannot do what they say, each at its place.
#
# TOLLGATE is the program.
set -u
. "$(dirname "$0")/../lib/tap"
. tests/cli/checking

p='providers: {p: {base_url: "http://h", api: openai}}'
m="$p
models: {big: {provider: p, price: {}, max_output_tokens: 1000}, small: {provider: p, price: {}, max_output_tokens: 10}}"
h=5e0c7ed5e3b5ef5a3c4c2f4f7f6b3a2a1d0e9c8b7a6f5e4d3c2b1a0f9e8d7c6b

hash_of() {
    printf %s "$1" | sha256sum | cut -d ' ' -f 1
}

# ---- Keys of one account ----

two='keys: @[{name: a, secret: "${TG_WORD}"}, {name: b, secret: "${TG_WORD}"}]'
warns 'providers.p.keys: 2 keys are in no group' "providers: {p: {base_url: \"http://h\", api: openai, $two}}"
good 'D13 keys in groups' "$(echo "providers: {p: {base_url: \"http://h\", api: openai, groups: {g: {}, o: {}}, $two}}" |
    tr -d @ | sed 's/}, {/, group: g}, {/; s/"}\]/", group: o}]/')"
good 'D13 a server of one'"'"'s own has no accounts' "$(echo "providers: {p: {base_url: \"http://127.0.0.1\", api: openai, $two}}" |
    tr -d @)"

# ---- Tokens: what a limit holds, against what a call is counted with ----

never='holds at most 1000 tokens; a call of "big" that does not say how many it wants is counted with 1001'
warns "gate.cost $never" "gate:
  cost: @{strategy: token_bucket, capacity: 1000, refill: 1}
$m"
good 'the least that is enough' "gate: {cost: {strategy: token_bucket, capacity: 1001, refill: 1}}
$m"
warns "cost of the tenant $never" "$m
tenants: [{name: a, cost: @{strategy: fixed_window, limit: 1000, window: 1m}}]"
warns "cost of the tenant $never" "$m
tenants: [{name: a, cost: @{strategy: gcra, limit: 5000, period: 1m, burst: 1000}}]"
good 'a burst above the limit counts' "$m
tenants: [{name: a, cost: {strategy: gcra, limit: 5, period: 1m, burst: 1001}}]"
good 'the meter lets the call pass that crosses it' "$m
tenants: [{name: a, cost: {strategy: token_budget, budget: 1000, window: 1d}}]"
good 'a tenant that may not use the model does not care' "$m
tenants: [{name: a, models: [small], cost: {strategy: token_bucket, capacity: 1000, refill: 1}}]"
warns "this limit $never" "$m
tenants: [{name: a, limits: [@{models: [big], tpm: 1000}]}]"
good 'a limit of another model does not care' "$m
tenants: [{name: a, limits: [{models: [small], tpm: 1000}, {rpm: 1}]}]"
warns "the limit of each user $never" "$m
tenants: [{name: a, users: @{from: \"header:x-u\", each: {tpm: 1000}}}]"
warns 'gate.cost holds at most 1500 tokens; a call of "big" that does not say how many it wants is counted with 2001' \
    "gate: {cost: @{strategy: token_bucket, capacity: 1500, refill: 1}}
$p
models: {big: {provider: p, price: {}, max_output_tokens: 2000, overbook: {start: 0.5}}}"
warns 'gate.cost holds at most 5000 tokens; a call of "big" may have 8192 (its context), and the largest are never admitted' \
    "gate: {cost: @{strategy: token_bucket, capacity: 5000, refill: 1}}
$p
models: {big: {provider: p, price: {}, context: 8192}}"

# ---- Slots ----

greedy='the tenant "b" may have every slot, and then no other is served'
of_two() {
    echo "$m
tenants: [{name: a, $1 keys: [{name: k, sha256: $(hash_of a)}]}, $2{name: b, $3 keys: [{name: k, sha256: $(hash_of b)}]}]"
}
warns "$greedy" "$(of_two 'concurrency: 8,' @ '')"
good 'each tenant has slots of its own' "$(of_two 'concurrency: 8,' '' 'concurrency: 8,')"
good 'each peer has its slots' "gate: {peers: {}}
$(of_two '' '' '')"
good 'who is alone takes them from nobody' "$m
tenants: [{name: a}, {name: b, keys: [{name: k, sha256: $(hash_of b)}]}]"

warns 'the tenant "a" may have 11 calls at once and all together 10 (gate.concurrency.max)' 'gate:
  concurrency: {max: 10, initial: 10, min: 1}
tenants: [{name: a, concurrency: @11}]'
good 'as many as all together' 'gate: {concurrency: {max: 10, initial: 10, min: 1}}
tenants: [{name: a, concurrency: 10}]'
good 'a ceiling in shadow is none' 'gate: {concurrency: {max: 10, initial: 10, min: 1, mode: shadow}}
tenants: [{name: a, concurrency: 11}]'

good 'the limit of a law that is fixed is where it starts' 'gate: {concurrency: {law: fixed, initial: 10, max: 20}}
tenants: [{name: a, concurrency: 10}]'
warns 'the tenant "a" may have 11 calls at once and all together 10 (gate.concurrency.initial)' 'gate: {concurrency: {law: fixed, initial: 10, max: 20}}
tenants: [{name: a, concurrency: @11}]'
warns 'gate.concurrency.initial has no effect: the law is none, whose limit is max (1024); law: fixed for a limit of 4' \
    'gate: {concurrency: {initial: @4}}'
warns 'gate.concurrency.law is vegas, which learns from all calls together, and those of 2 models and protected routes take different times; let each learn by itself, with models.NAME.concurrency' \
    "gate: {concurrency: {law: @vegas}}
$p
models: {a: {provider: p, price: {}}, b: {provider: p, price: {}}}"
good 'a law that learns over work of one kind' "gate: {concurrency: {law: vegas}}
$p
models: {a: {provider: p, price: {}}}"
good 'a law that learns at each model' "gate: {concurrency: {max: 100}}
$p
models: {a: {provider: p, price: {}, concurrency: {law: vegas}}, b: {provider: p, price: {}}}"

# ---- Money ----

warns 'the budget of $6 (day) is above the $5 of the tenant "top", which is used up first' 'tenants:
  - {name: top, budgets: [{usd: 5, per: day}, {usd: 4, per: day, mode: shadow}]}
  - {name: middle, parent: top}
  - {name: a, parent: middle, budgets: [{usd: 5, per: day}, @{usd: 6, per: day}, {usd: 100, per: month}]}'
warns 'the budget of $0.5 (total) is above the $0.25 of everyone together, which is used up first' \
    'budgets: [{usd: 0.25, per: total}]
tenants: [{name: a, budgets: [@{usd: 0.5, per: total}]}]'
warns 'the budget of $6 (day) is above the $5 of the tenant "a"' 'tenants:
  - {name: a, budgets: [{usd: 5, per: day}],
     users: {from: "header:x-u", each: {budgets: [@{usd: 6, per: day}]}}}'

# ---- Models ----

warns 'the tenant "a" may use none of the models' "$m
tenants: [{name: a, models: @[big, \"!b*\"]}]"
warns 'this limit is for none of the models that the tenant "a" may use' "$m
tenants: [{name: a, models: [small], limits: [{models: @[big], rpm: 5}]}]"
f="$p
models: {x: {provider: p, price: {}, fallback: [y, z]}, y: {provider: p, price: {}}, z: {provider: p, price: {}}}"
warns 'the tenant "a" may use "x" and none of its fallbacks' "$f
tenants: [{name: a, models: @[x]}]"
good 'a fallback that was taken away is not missed' "$f
tenants: [{name: a, models: [\"*\", \"!y\", \"!z\"]}]"
good 'one fallback is enough' "$f
tenants: [{name: a, models: [x, z]}]"
f="$p
models: {x: {provider: p, price: {}, cheaper: z}, y: {provider: p, price: {}}, z: {provider: p, price: {}}}"
warns 'no model that the tenant "a" may use has a cheaper one that it may use' "$f
tenants: [{name: a, models: [x, y], allow_cheaper: @0.2}]"
good 'a cheaper one is there' "$f
tenants: [{name: a, allow_cheaper: 0.2}]"

# ---- Keys ----

for word in '' test secret changeme password sk-test foo; do
    warns "this is the hash of \"$word\", which anybody can guess; make another key" \
        "tenants: [{name: a, keys: [{sha256: $h}, {name: k, sha256: @$(hash_of "$word")}]}]"
done
warns 'this is the hash of "token", which anybody can guess; make another token' \
    "callers: [{name: envoy, token_sha256: @$(hash_of token)}]"
warns 'the key "old" of the tenant "a" has expired' \
    "tenants: [{name: a, keys: [{name: old, sha256: $h, not_after: @\"2001-01-01T00:00:00Z\"}]}]"
warns 'the tenant "a" has no key and is nobody'"'"'s parent: it cannot call' "listen: {gateway: h:1}
$m
tenants: [{name: @a}, {name: top}, {name: b, parent: top, keys: [{sha256: $h}]}]"
good 'whoever asks for decisions names tenants' "listen: {gateway: h:1}
callers: [{name: envoy, token_sha256: $h, may: [tenant]}]
$m
tenants: [{name: a}]"

# ---- Administration ----

export TG_SHORT=fifteen-letters TG_LONG=sixteen-letters.
warns 'admin_auth.token has fewer than 16 characters' 'admin_auth: {token: @"${TG_SHORT}"}'
good 'a token of sixteen' 'listen: {admin: h:1}
admin_auth: {token: "${TG_LONG}"}'
warns 'listen.admin is given and admin_auth.token is not' 'listen: {admin: @h:1}'
check 'no token is shown' sh -c '! grep -F letters "$1/err"' - "$tmp"

# ---- Bounds: errors ----

line='{rpm: 1}, {rpm: 2}, {rpm: 3}, {rpm: 4}'
good 'sixteen limits for a call' "gate: {rate: {strategy: gcra, limit: 1, period: 1s}}
tenants:
  - {name: top, limits: [$line, $line, {rpm: 1}, {rpm: 2}, {rpm: 3}]}
  - {name: a, parent: top, limits: [{rpm: 1}, {rpm: 2}, {rpm: 3}, {models: [x], rpm: 4}, {models: [y], rpm: 5}]}"
sed 's/{models: \[y\], rpm: 5}/{models: ["*x"], rpm: 5}/' "$tmp/c.yaml" >"$tmp/d.yaml"
check_file d.yaml
check 'seventeen are too many' grep -F 'd.yaml:4:36: a call of the tenant "a" for the model "x" has to clear 17 sets of limits, its parents'"'"' and keys'"'"' included; at most 16 are allowed' "$tmp/err"
budgets='{usd: 1, per: day}, {usd: 2, per: day}, {usd: 3, per: day}'
bad 'the tenant has 9 budgets; at most 8 are allowed' \
    "tenants: [{name: a, budgets: @[$budgets, $budgets, $budgets]}]"
bad 'each user has 9 budgets; at most 8 are allowed' \
    "tenants: [{name: a, users: {from: \"header:x-u\", each: {budgets: @[$budgets, $budgets, $budgets]}}}]"
bad 'budgets has 9 budgets in all; at most 8 are allowed' "budgets: @[$budgets, $budgets, $budgets]"

# ---- Settings without effect ----

r='store: "redis://h:1"'
warns 'two_tier has no effect with store: memory' 'two_tier: {enabled: @true}'
good 'nothing is claimed' 'two_tier: {enabled: false, block: 100ms}'
good 'with Redis it has one' "$r
two_tier: {enabled: true}"
warns 'store_timeout has no effect with store: memory' 'store_timeout: @50ms'
good 'of Redis' "$r
store_timeout: 50ms"
warns 'store_tls has no effect: the store is not a rediss:// one' "$r
store_tls: @{ca: system}"
good 'of TLS' 'store: "rediss://h:1"
store_tls: {ca: system}'
warns 'divide has no effect with store: memory: there is one gateway' 'gate: {concurrency: {divide: @true}}'
good 'divided among several' "$r
gate: {concurrency: {divide: true}}"
k='keys: [{name: k, secret: "${TG_WORD}", group: used}]'
warns 'no key is in the group "idle": its limits have no effect' "providers: {p: {base_url: \"http://h\", api: openai, groups: {used: {rpm: 1}, @idle: {rpm: 1}}, $k}}
models: {m: {provider: p, price: {}}}"
good 'a group of a model'"'"'s own keys' "providers: {p: {base_url: \"http://h\", api: openai, groups: {used: {rpm: 1}}}}
models: {m: {provider: p, price: {}, $k}}"
warns 'no model and no passthrough uses the provider "q": nobody can use it' 'providers:
  p: {base_url: "http://h", api: openai}
  @q: {base_url: "http://h", api: openai}
models: {m: {provider: p, price: {}}}'
warns 'retries has no effect: retry_budget allows none' "$p
models: {m: {provider: p, price: {}, retries: @2}}
retry_budget: {ratio: 0, min_per_s: 0}"
good 'as many retries as there are' "$p
models: {m: {provider: p, price: {}, retries: 0}}
retry_budget: {ratio: 0, min_per_s: 0}"
warns 'cheaper has no effect: no tenant has allow_cheaper' "$p
models: {m: {provider: p, price: {}, cheaper: @n}, n: {provider: p, price: {}}}
tenants: [{name: a}]"
good 'one has' "$p
models: {m: {provider: p, price: {}, cheaper: n}, n: {provider: p, price: {}}}
tenants: [{name: a, allow_cheaper: 0.2, budgets: [{usd: 1, per: day}]}]"
warns 'admin_auth has no effect without listen.admin' 'listen: {gateway: 127.0.0.1:1}
admin_auth: @{token: "${TG_LONG}"}'
good 'the settings of another law wait for their day' 'gate: {concurrency: {law: none, vegas: {alpha: 3, beta: 9}}}'
finish
