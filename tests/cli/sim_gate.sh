#!/bin/sh
# sim_gate.sh - a gate decides the same in `tollgate sim` and in `tollgate replay`.
#
# First the same trace in both, for gates whose decisions do not depend on when calls end. Then
# gates with slots, queues and peers: what the simulation says of a call, when it came and when it
# had its last token, becomes a trace with releases, and replay must decide every call of it as the
# simulation did. By the roofline model a call ends when its last token is there, to the microsecond.
set -u
. "$(dirname "$0")/../lib/tap"

# A trace that replay takes: calls of three tenants, with costs and values.
awk 'function draw(n) { s = (s * 16807) % 2147483647; return s % n }
BEGIN {
    s = 4711
    for (i = 0; i < 3000; i++) {
        t += draw(9)
        tenant = draw(3)
        printf "{\"t\":%d,\"id\":\"c%d\",\"key\":\"%s\",\"cost\":%d,\"value\":%d.%d,\"priority\":\"%s\"",
            t, i, tenant == 0 ? "big" : tenant == 1 ? "small" : "other", 1 + draw(400), draw(9),
            draw(10), draw(3) == 0 ? "high" : draw(2) == 0 ? "normal" : "low"
        if (draw(2) == 0) printf ",\"model\":\"m%d\",\"user\":\"u%d\"", draw(3), draw(5)
        print "}"
    }
}' >"$tmp/trace"

# decisions of replay and of results: id, allowed, reason; by id.
of_replay() {
    sed 's/^{"allowed":\([a-z]*\),.*"id":"\([^"]*\)".*"reason":"\([^"]*\)".*/\2 \1 \3/
         s/^{"allowed":\([a-z]*\),.*"id":"\([^"]*\)".*/\2 \1 -/' | sort
}
of_results() {
    sed 's/^{"id":"\([^"]*\)".*"admitted":\([a-z]*\),"reason":"\([^"]*\)".*/\1 \2 \3/; s/ $/ -/' | sort
}

# agree NAME: $tmp/by_replay and $tmp/by_sim, and some but not all calls are refused.
agree() {
    calls=$(wc -l <"$tmp/by_sim" | tr -d ' ')
    refused=$(grep -c ' false ' "$tmp/by_sim")
    if ! cmp -s "$tmp/by_replay" "$tmp/by_sim"; then
        not_ok "$1" "$(diff "$tmp/by_replay" "$tmp/by_sim" | head -n 10)"
    elif [ "$refused" -lt $((calls / 50)) ] || [ "$refused" -gt $((calls * 49 / 50)) ]; then
        not_ok "$1" "$refused of $calls are refused: that shows nothing"
    else
        ok "$1 ($refused of $calls refused)"
    fi
}

# ---- The same trace in both ----

tenants='tenants:
  - name: big
    value: 3
    rate: {strategy: gcra, limit: 200, period: 1s, burst: 20}
    limits: [{rpm: 4000}, {models: [m1], rpm: 600}]
    users: {from: "header:x-tollgate-user", max: 100, each: {rpm: 900}}
  - name: small
    parent: big
    cost: {strategy: sliding_window, limit: 9000, window: 2s, buckets: 10}'

# both NAME GATE...: the configuration's gate section, a line each.
both() {
    name=$1
    shift
    { echo 'gate:'; printf '  %s\n' "$@"; echo "$tenants"; } >"$tmp/gate.yaml"
    run replay -c "$tmp/gate.yaml" "$tmp/trace"
    of_replay <"$tmp/out" >"$tmp/by_replay"
    run sim --num-instances 4 --admission-policy gate -c "$tmp/gate.yaml" --trace "$tmp/trace" \
        --results "$tmp/results"
    if [ "$status" -ne 0 ]; then
        not_ok "$name" "$(cat "$tmp/err")"
        return
    fi
    of_results <"$tmp/results" >"$tmp/by_sim"
    agree "$name"
}

both 'rate' 'rate: {strategy: gcra, limit: 60, period: 1s, burst: 10}'
both 'rate and cost, all or nothing' 'rate: {strategy: fixed_window, limit: 70, window: 1s}' \
    'cost: {strategy: token_bucket, capacity: 5000, refill: 9000}'
both 'rate and cost, one after the other' 'charging: per-axis' \
    'rate: {strategy: sliding_log, limit: 70, window: 1s}' \
    'cost: {strategy: token_budget, budget: 40000, window: 3s}'
both 'given prices' 'cost: {strategy: token_bucket, capacity: 20000, refill: 20000}' \
    'policy: {kind: bid-price, prices: duals, duals: {rate: 1, cost: 0.02, concurrency: 0}}'
both 'prices that follow what is left' 'rate: {strategy: gcra, limit: 1000, period: 1s}' \
    'cost: {strategy: token_bucket, capacity: 20000, refill: 20000}' \
    'policy: {kind: bid-price, prices: online, online: {window: 2s, rate_budget: 300, cost_budget: 30000}}'

# Time since 1970 is moved for the cluster, but not for the gate: its windows begin where they do.
awk -F'[:,]' '{ sub(/"t":[0-9]+/, sprintf("\"t\":%.0f", 1731650400123 + $2)); print }' "$tmp/trace" >"$tmp/later"
mv "$tmp/later" "$tmp/trace"
both 'in the time of the trace' 'rate: {strategy: fixed_window, limit: 70, window: 1s}' \
    'cost: {strategy: sliding_window, limit: 20000, window: 3s, buckets: 7}'

# ---- Calls that end ----

awk 'function draw(n) { s = (s * 16807) % 2147483647; return s % n }
BEGIN {
    s = 815
    for (i = 0; i < 2500; i++) {
        t += 1 + draw(11000)
        printf "{\"arrival_us\":%d,\"id\":\"c%d\",\"key\":\"t%d\",\"peer\":\"p%d\",\"cost\":%d,\"priority\":\"%s\",\"input_tokens\":%d,\"output_tokens\":%d}\n",
            t, i, draw(4), draw(3), 1 + draw(50), draw(3) == 0 ? "high" : draw(2) == 0 ? "normal" : "low",
            20 + draw(300), 2 + draw(60)
    }
}' >"$tmp/load"

# One event a line, in the order of time: calls before ends at one instant, as in a cluster.
to_replay='
function get(name,    at) {
    at = index($0, "\"" name "\":")
    if (at == 0) return ""
    rest = substr($0, at + length(name) + 3)
    if (substr(rest, 1, 1) == "\"") { rest = substr(rest, 2); sub(/".*/, "", rest) }
    else sub(/[,}].*/, "", rest)
    return rest
}
FNR == NR { load[get("id")] = $0; next }
{
    id = get("id"); at = get("arrival_us"); e2e = get("e2e_ms"); admitted = get("admitted")
    $0 = load[id]
    printf "%015d 0 {\"t\":%d,\"id\":\"%s\",\"key\":\"%s\",\"peer\":\"%s\",\"cost\":%s,\"priority\":\"%s\"}\n",
        at, int(at / 1000), id, get("key"), get("peer"), get("cost"), get("priority")
    if (admitted == "true" && e2e != "null") {
        end = at + int(e2e * 1000 + 0.5)
        printf "%015d 1 {\"t\":%d,\"op\":\"release\",\"id\":\"%s\"}\n", end, int(end / 1000), id
    }
}'

# ends NAME GATE...: as above.
ends() {
    name=$1
    shift
    { echo 'gate:'; printf '  %s\n' "$@"; } >"$tmp/gate.yaml"
    run sim --num-instances 2 --latency-model roofline --admission-policy gate -c "$tmp/gate.yaml" \
        --trace "$tmp/load" --results "$tmp/results"
    if [ "$status" -ne 0 ]; then
        not_ok "$name" "$(cat "$tmp/err")"
        return
    fi
    of_results <"$tmp/results" >"$tmp/by_sim"
    awk "$to_replay" "$tmp/load" "$tmp/results" | sort | cut -d' ' -f3- >"$tmp/events"
    run replay -c "$tmp/gate.yaml" "$tmp/events"
    if [ "$status" -ne 0 ]; then
        not_ok "$name" "$(cat "$tmp/err")"
        return
    fi
    of_replay <"$tmp/out" >"$tmp/by_replay"
    agree "$name"
}

ends 'a fixed number of slots' 'concurrency: {law: fixed, initial: 20, min: 1}' \
    'queue: {size: 8, wait: {high: 200ms, normal: 60ms, low: 0ms}}'
ends 'vegas' 'concurrency: {law: vegas, initial: 24, min: 4, max: 64, window: 200ms}'
ends 'gradient2' 'concurrency: {law: gradient2, initial: 16, min: 4, max: 64}' \
    'queue: {size: 16, wait: {high: 100ms, normal: 100ms, low: 20ms}}'
ends 'aimd' 'concurrency: {law: aimd, initial: 30, min: 4, max: 64, aimd: {tolerance: 2}}'
ends 'peers, rate and cost' 'concurrency: {law: fixed, initial: 40, min: 1}' 'peers: {limit: 9}' \
    'rate: {strategy: gcra, limit: 50, period: 1s}' \
    'cost: {strategy: token_bucket, capacity: 400, refill: 900}'

# ---- Clients that come again ----

printf 'gate:\n  rate: {strategy: fixed_window, limit: 2, window: 1s}\n' >"$tmp/gate.yaml"
printf '{"t":%d,"id":"%s","key":"k"}\n' 0 a 100 b 200 c 300 d 400 e >"$tmp/few"
run sim --admission-policy gate -c "$tmp/gate.yaml" --trace "$tmp/few" --retry --max-retries 2 \
    --results "$tmp/results"
got=$(sed 's/^{"id":"\([a-z]*\)".*"status":"\([a-z]*\)","attempts":\([0-9]*\).*/\1 \2 \3/' "$tmp/results" |
    tr '\n' ';')
if [ "$got" = 'a completed 1;b completed 1;c completed 2;d completed 2;e completed 3;' ]; then
    ok 'they come when the refusal says, and again'
else
    not_ok 'they come when the refusal says, and again' "$got" "$(cat "$tmp/err")"
fi
run sim --admission-policy gate -c "$tmp/gate.yaml" --trace "$tmp/few" --max-retries 1 --json
refusals=$(sed 's/.*"refusals":\([0-9]*\),.*/\1/' "$tmp/out")
[ "$refusals" = 4 ] && ok 'every refusal is counted' || not_ok 'every refusal is counted' "$refusals"
printf 'gate:\n  cost: {strategy: token_bucket, capacity: 10, refill: 1}\n' >"$tmp/gate.yaml"
printf '{"t":0,"id":"a","key":"k","cost":11}\n' >"$tmp/few"
run sim --admission-policy gate -c "$tmp/gate.yaml" --trace "$tmp/few" --retry --results "$tmp/results"
grep -q '"status":"rejected","attempts":1' "$tmp/results" && ok 'who can never be admitted does not come again' ||
    not_ok 'who can never be admitted does not come again' "$(cat "$tmp/results")"

# ---- Time that is held ----

# A second of a slot costs 1 and a call is worth 2. Short calls are worth it, long ones are until the
# first has ended and shown that they hold their slots for longer.
printf '%s\n' 'gate:' '  concurrency: {law: fixed, initial: 100, min: 1}' \
    '  cost: {strategy: token_bucket, capacity: 1000000, refill: 1000000}' \
    '  policy: {kind: bid-price, prices: duals, duals: {rate: 0, cost: 0, concurrency: 1}}' >"$tmp/gate.yaml"
printf '{"t":%d,"id":"%s","tenant":"k","model":"%s","input_tokens":10,"output_tokens":%d,"value":2}\n' \
    0 a long 2000 1 b short 5 60000 c long 2000 60001 d short 5 >"$tmp/few"
run sim --admission-policy gate -c "$tmp/gate.yaml" --trace "$tmp/few" --results "$tmp/results"
got=$(sed 's/^{"id":"\([a-z]*\)".*"admitted":\([a-z]*\),"reason":"\([a-z]*\)".*/\1 \2 \3/' "$tmp/results" | tr '\n' ';')
if [ "$got" = 'a true ;b true ;c false policy;d true ;' ]; then
    ok 'a call holds a slot as long as those of its model did'
else
    not_ok 'a call holds a slot as long as those of its model did' "$got" "$(cat "$tmp/err")"
fi

# ---- Settling ----

printf 'gate:\n  cost: {strategy: token_bucket, capacity: 1000, refill: 1}\n' >"$tmp/gate.yaml"
printf '{"t":%d,"id":"%s","tenant":"k","input_tokens":100,"max_output_tokens":900,"output_tokens":2}\n' \
    0 a 1 b >"$tmp/few"
run sim --admission-policy gate -c "$tmp/gate.yaml" --trace "$tmp/few" --results "$tmp/results"
got=$(grep -c '"admitted":true' "$tmp/results")
if [ "$got" = 1 ] && grep -q '"id":"b".*"reason":"cost"' "$tmp/results"; then
    ok 'what is reserved is what a call may use'
else
    not_ok 'what is reserved is what a call may use' "$(cat "$tmp/results")"
fi
printf '{"t":%d,"id":"%s","tenant":"k","input_tokens":100,"max_output_tokens":800,"output_tokens":2}\n' \
    0 a 10000 b >"$tmp/few"
run sim --admission-policy gate -c "$tmp/gate.yaml" --trace "$tmp/few" --results "$tmp/results"
got=$(grep -c '"admitted":true' "$tmp/results")
[ "$got" = 2 ] && ok 'what was not used is given back' ||
    not_ok 'what was not used is given back' "$(cat "$tmp/results")"
sed 's/}$/,"cost":900}/' "$tmp/few" >"$tmp/recorded"
run sim --admission-policy gate -c "$tmp/gate.yaml" --trace "$tmp/recorded" --results "$tmp/results"
got=$(grep -c '"admitted":true' "$tmp/results")
[ "$got" = 2 ] && ok 'also of a cost that was recorded' ||
    not_ok 'also of a cost that was recorded' "$(cat "$tmp/results")"
sed 's/"max_output_tokens":800,//' "$tmp/recorded" >"$tmp/few"
run sim --admission-policy gate -c "$tmp/gate.yaml" --trace "$tmp/few" --results "$tmp/results"
got=$(grep -c '"admitted":true' "$tmp/results")
[ "$got" = 1 ] && ok 'a cost that does not say for what stands' ||
    not_ok 'a cost that does not say for what stands' "$(cat "$tmp/results")"
finish
