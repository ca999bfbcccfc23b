#!/bin/sh
# replay_store.sh - `tollgate replay --store`: the known answers of every limiter and of whole gates,
# given by a real Redis, to the byte.
set -u
. "$(dirname "$0")/../lib/tap"

redis=
cleanup() {
    if [ -n "$redis" ]; then
        kill "$redis" 2>/dev/null
        wait "$redis" 2>/dev/null
    fi
    rm -rf "$tmp"
}
trap cleanup EXIT

for tool in redis-server redis-cli; do
    command -v "$tool" >/dev/null && continue
    echo "1..0 # SKIP there is no $tool here"
    exit 0
done

redis-server --port 0 --unixsocket "$tmp/redis" --save '' --appendonly no --dir "$tmp" \
    >"$tmp/log" 2>&1 &
redis=$!
ask() {
    redis-cli -s "$tmp/redis" "$@" 2>/dev/null
}
until [ "$(ask ping)" = PONG ] || ! kill -0 "$redis" 2>/dev/null; do
    sleep 0.05
done
store="redis+unix://$tmp/redis"

# ---- Whole gates

replay_gates --store "$store"

# ---- Limiters

cat >"$tmp/calls" <<'END'
{"t":1000,"key":"a"}
{"t":1000,"key":"a","cost":3}
{"t":1001,"key":"b","cost":0}
{"t":1100,"key":"a","cost":11}
{"t":1200,"key":"a","cost":4}
{"t":1200,"cost":2}
{"t":900,"key":"a","cost":1}
{"t":1999,"key":"a","cost":5}
{"t":2000,"key":"a","cost":5}
{"t":7000,"key":"a","cost":10}
END
for spec in gcra:limit=10,period=1000,burst=5 token_bucket:capacity=10,refill=5 \
    fixed_window:limit=5,window=1000 sliding_window:limit=10,window=1000,buckets=10 \
    sliding_log:limit=5,window=1000 token_budget:budget=7,window=6000; do
    run replay --limiter "$spec" "$tmp/calls"
    mv "$tmp/out" "$tmp/want"
    run replay --limiter "$spec" --store "$store" "$tmp/calls"
    if [ "$status" -eq 0 ] && cmp -s "$tmp/out" "$tmp/want"; then
        ok "$spec"
    else
        not_ok "$spec" "status $status" "$(cat "$tmp/err")" "$(diff "$tmp/want" "$tmp/out")"
    fi
done
cat >"$tmp/first.yaml" <<'END'
gate: {rate: {strategy: fixed_window, limit: 3, window: 10s}, cost: {strategy: token_bucket, capacity: 9, refill: 2}}
tenants: [{name: a, limits: [{rpm: 2}]}]
END
cat >"$tmp/second.yaml" <<'END'
gate: {rate: {strategy: fixed_window, limit: 1, window: 10s}}
tenants: [{name: a, cost: {strategy: sliding_log, limit: 4, window: 1s}}]
END
run replay -c "$tmp/first.yaml" --compare "$tmp/second.yaml" "$tmp/calls"
mv "$tmp/out" "$tmp/want"
run replay -c "$tmp/first.yaml" --compare "$tmp/second.yaml" --store "$store" "$tmp/calls"
if [ "$status" -eq 1 ] && cmp -s "$tmp/out" "$tmp/want" && grep -q 'only the first admits' "$tmp/out"; then
    ok 'two configurations, compared'
else
    not_ok 'two configurations, compared' "status $status" "$(cat "$tmp/err")" \
        "$(diff "$tmp/want" "$tmp/out")"
fi
if [ "$(ask dbsize)" = 0 ]; then
    ok 'nothing is left in Redis'
else
    not_ok 'nothing is left in Redis' "$(ask --scan)"
fi

# ---- What is wrong

run replay --limiter gcra:limit=1,period=1000 --store "redis+unix://$tmp/nobody" "$tmp/calls"
expect 'a Redis that is away' 1 'tollgate replay: --store: cannot reach Redis: '
ask acl setuser few on '>x' '~other:*' +@all >/dev/null
run replay --limiter gcra:limit=1,period=1000 --store "redis+unix://few:x@$tmp/redis" "$tmp/calls"
expect 'a Redis that does not let us says so' 1 "calls:1: Redis did not decide: unix:$tmp/redis: NOPERM"
run replay -c "$tmp/first.yaml" --compare "$tmp/second.yaml" --store "$store" --store-prefix p "$tmp/calls"
expect 'two configurations cannot go on from one' 2 'tollgate replay: --store-prefix is for one configuration'
run replay -c "$tmp/first.yaml" --compare "$tmp/second.yaml" --store "redis+unix://$tmp/nobody" "$tmp/calls"
expect 'a comparison on a Redis that is away' 1 'tollgate replay: --store: cannot reach Redis: '
run replay --limiter gcra:limit=1,period=1000 --store localhost "$tmp/calls"
expect 'an address that is none' 2 'tollgate replay: --store: it must begin with redis://'

finish
