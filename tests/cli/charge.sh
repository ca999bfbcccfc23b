#!/bin/sh
# charge.sh - a gateway charges what calls use, and a replay of its recording charges the same.
set -u
. "$(dirname "$0")/../lib/tap"

pid= upstream=
cleanup() {
    for each in $pid $upstream; do
        kill "$each" 2>/dev/null
    done
    rm -rf "$tmp"
}
trap cleanup EXIT

# listening FIFO: the line that says where a program listens; the rest goes to $tmp/log.
listening() {
    exec 5<"$1"
    while read -r line <&5; do
        case $line in
        *'listening on '*) break ;;
        esac
    done
    cat <&5 >>"$tmp/log" &
    exec 5<&-
}

mkfifo "$tmp/mock" "$tmp/serve"
"$TOLLGATE" mock --port 0 >"$tmp/mock" 2>&1 &
upstream=$!
listening "$tmp/mock"
at=$(echo "$line" | sed -n 's/.*listening on \(http:\/\/\)*\([0-9.:]*\).*/\2/p')
cat >"$tmp/c.yaml" <<END
listen: {gateway: "127.0.0.1:0", admin: "127.0.0.1:0"}
ledger: {path: ":memory:"}
admin_auth: {token: a-token-for-this-test}
workers: 1
providers: {p: {base_url: "http://$at", api: openai, keys: [{name: k, secret: x, tpm: 1000000}]}}
models: {m: {provider: p, price: {}}}
aliases: {other: m}
tenants:
  - name: a
    keys: [{name: k, sha256: "$(printf tg-key-a | sha256sum | cut -d' ' -f1)"}]
    cost: {strategy: fixed_window, limit: 10000, window: 365d}
END
"$TOLLGATE" serve -c "$tmp/c.yaml" --record "$tmp/record" 2>"$tmp/serve" &
pid=$!
listening "$tmp/serve"
gateway=$(echo "$line" | sed -n 's/.* on \([^ ]*\) (gateway).*/\1/p')
admin=$(echo "$line" | sed -n 's/.*[ ,]\([^ ]*\) (admin).*/\1/p')

# 40 calls ask for 1,006 tokens each and use 19: charged in full, the limit would hold 9 of them.
passed=0
for i in $(seq 1 40); do
    model=m
    [ $((i % 2)) -eq 0 ] && model=other
    code=$(curl -sS -o "$tmp/reply" -D "$tmp/head" -w '%{http_code}' \
        -H 'authorization: Bearer tg-key-a' -H 'content-type: application/json' \
        -d '{"model":"'$model'","max_tokens":1000,"messages":[{"role":"user","content":"hello"}]}' \
        "http://$gateway/v1/chat/completions" 2>>"$tmp/log")
    [ "$code" = 200 ] && passed=$((passed + 1))
done
[ "$passed" -eq 40 ] && ok 'a limit holds as many calls as it holds of what they use' ||
    not_ok 'a limit holds as many calls as it holds of what they use' "$passed" "$(cat "$tmp/reply")"
left=$(tr -d '\r' <"$tmp/head" | sed -n 's/^x-ratelimit-remaining-tokens: //p')

curl -sS -H 'authorization: Bearer a-token-for-this-test' \
    "http://$admin/api/v1/explain?tenant=a&model=m&tokens=1006" >"$tmp/explained" 2>>"$tmp/log"
charge=$(sed -n 's/.*"charged_tokens":\([0-9]*\).*/\1/p' "$tmp/explained")
if [ "${charge:-0}" -gt 19 ] && [ "$charge" -lt 200 ]; then
    ok 'explain says what the next call is charged'
else
    not_ok 'explain says what the next call is charged' "$(cat "$tmp/explained")"
fi
code=$(curl -sS -o "$tmp/reply" -w '%{http_code}' -H 'authorization: Bearer tg-key-a' \
    -H 'content-type: application/json' -d '{"model":"m","max_tokens":10001,"messages":[]}' "http://$gateway/v1/chat/completions")
if [ "$code" = 400 ] && grep -q request_exceeds_limit "$tmp/reply"; then
    ok 'a call that asks for more than the limit holds is refused for good, whatever was learned'
else
    not_ok 'a call that asks for more than the limit holds is refused for good, whatever was learned' \
        "$code" "$(cat "$tmp/reply")"
fi
kill -TERM "$pid"
wait "$pid"
pid=

# The recording as operations: each call ends before the next one comes.
sed -n 's/^{"t":\([0-9]*\),"id":"\([^"]*\)".*"model":"\([^"]*\)".*"output_tokens":16,.*"cost":\([0-9]*\),.*/\1 \2 \3 \4/p' \
    "$tmp/record" | while read -r t id model cost; do
    printf '{"t":%s,"id":"%s","key":"a","model":"%s","cost":%s}\n' "$t" "$id" "$model" "$cost"
    printf '{"t":%s,"op":"release","id":"%s","actual":19}\n' "$t" "$id"
done >"$tmp/trace"
"$TOLLGATE" replay -c "$tmp/c.yaml" "$tmp/trace" >"$tmp/replayed" 2>>"$tmp/log"
got=$(sed -n '$s/.*"cost":{[^}]*"remaining":\([0-9]*\).*/\1/p' "$tmp/replayed")
if [ -n "$left" ] && [ "$got" = "$left" ] && [ "$(wc -l <"$tmp/replayed")" -eq 40 ]; then
    ok 'a replay of the recording charges the same'
else
    not_ok 'a replay of the recording charges the same' "serve: $left, replay: $got" \
        "$(tail -2 "$tmp/replayed")" "$(cat "$tmp/log")"
fi
finish
