#!/bin/sh
# mock.sh - `tollgate mock`: what it takes, where it listens, what it writes down, how it ends.
set -u
. "$(dirname "$0")/../lib/tap"

# What is wrong is said, with its place, and nothing is started.
run mock --port 70000
expect 'a port out of range' 2 "--port is '70000'" 'from 0 to 65535'
run mock --latency soon
expect 'no latency' 2 "--latency is 'soon'" 'lognormal(20ms, 0.5)'
run mock --pace fast
expect 'no pace' 2 "--pace is 'fast'"
run mock --workers 0
expect 'no workers' 2 "--workers is '0'" 'from 1 to 64'
run mock script.yaml
expect 'an argument' 2 "unexpected argument 'script.yaml'"
run mock --log --record "$tmp/record"
expect 'two places for records' 2 '--log and --record FILE exclude each other'
run mock --script "$tmp/nothing.yaml"
expect 'no script' 2 "cannot read $tmp/nothing.yaml"
run mock --port 0 --record "$tmp/no/folder"
expect 'no place for records' 2 "cannot write $tmp/no/folder"
printf 'rules:\n- when: {nth: 1}\n  do: {latenzy: 3ms}\n- do: {status: 7}\n' >"$tmp/bad.yaml"
run mock --script "$tmp/bad.yaml"
expect 'a bad script' 2 "$tmp/bad.yaml:3:8: 'latenzy' is not an action" \
    "$tmp/bad.yaml:4:16: status must be from 200 to 599"

# The documentation has every action, and its examples are scripts.
docs=$here/../../docs/mock.md
missing=
for word in $(sed -n 's/.*no action; there are //p' "$tmp/err" | tr -d ','); do
    grep -q "^|.*\`$word\`.*|" "$docs" || missing="$missing $word"
done
[ -z "$missing" ] && ok 'docs/mock.md has every action' ||
    not_ok 'docs/mock.md has every action' "not$missing"
awk -v to="$tmp/example" '
    /^```yaml/ { n++; on = 1; next }
    /^```/     { on = 0 }
    on         { print >(to n ".yaml") }' "$docs"

# start ARGUMENTS...: sets pid and url. The first line says where it listens.
start() {
    : >"$tmp/out"
    "$TOLLGATE" mock --port 0 "$@" >"$tmp/out" 2>"$tmp/err" &
    pid=$!
    until address=$(sed -n '1s/^listening on //p' "$tmp/out") && [ -n "$address" ]; do
        kill -0 $pid 2>/dev/null || return 1
    done
    url=http://$address
}

# stop SIGNAL: the status it ended with.
stop() {
    kill "-$1" $pid
    wait $pid
    status=$?
}

# says NAME WORDS...: all of them are in $tmp/got.
says() {
    name=$1
    shift
    for words; do
        if ! grep -qF -e "$words" "$tmp/got"; then
            not_ok "$name" "nothing of '$words' in:" "$(head -c 1000 "$tmp/got")"
            return
        fi
    done
    ok "$name"
}

for example in "$tmp"/example*.yaml; do
    if start --script "$example"; then
        ok "$(basename "$example") of docs/mock.md"
        stop TERM
    else
        not_ok "$(basename "$example") of docs/mock.md" "$(cat "$tmp/err")"
    fi
done

if ! command -v curl >/dev/null; then
    skip 'calls' 'there is no curl'
    finish
fi

cat >"$tmp/script.yaml" <<'YAML'
rules:
  - when: {path: /v1/chat/completions, nth: 1}
    do: {status: 429, retry_after_ms: 150}
YAML
start --script "$tmp/script.yaml" --tokens 3 --keys sk-a,sk-b --record "$tmp/record" --workers 2
body='{"model":"demo-small","messages":[{"role":"user","content":"hello"}]}'
call() {
    path=$1
    shift
    curl -s -i -H 'authorization: Bearer sk-b' -d "$body" "$@" "$url$path" >"$tmp/got"
}
call /v1/chat/completions
says 'the first call meets its rule' 'HTTP/1.1 429' 'retry-after-ms: 150' rate_limit_exceeded
call /v1/chat/completions
says 'the second does not' 'HTTP/1.1 200' '"completion_tokens":3,'
call /v1/messages
says 'the other API' 'HTTP/1.1 200' '"type":"message"' '"output_tokens":3,'
curl -s -i -H 'x-api-key: sk-c' -d "$body" "$url/v1/messages" >"$tmp/got"
says 'another key' 'HTTP/1.1 401' '"type":"authentication_error"'
# An end is written down when the system has taken the last byte: perhaps after the client has it.
for _ in $(seq 200); do
    curl -s "$url/mock/requests" >"$tmp/got"
    grep -q '"ended":4,' "$tmp/got" && break
done
says 'what it saw' '"begun":4,"ended":4' '"status":429' '"header":"x-api-key"' '"key":2'
stop TERM
[ $status -eq 0 ] && ok 'SIGTERM ends it' || not_ok 'SIGTERM ends it' "status $status"
cp "$tmp/record" "$tmp/got"
[ "$(wc -l <"$tmp/got")" -eq 4 ] && ok 'a line for each request' ||
    not_ok 'a line for each request' "$(cat "$tmp/got")"
says 'the record' '"ended":"completed"' "$(printf %s "$body" | sha256sum | cut -d ' ' -f 1)"
if grep -q 'sk-' "$tmp/record"; then
    not_ok 'no key is written down' "$(grep 'sk-' "$tmp/record")"
else
    ok 'no key is written down'
fi

# A call that hangs does not keep it from ending.
start --latency 1h --log
curl -s -d "$body" "$url/v1/chat/completions" >/dev/null &
waiting=$!
until curl -s "$url/mock/requests" | grep -q '"begun":1'; do :; done
stop INT
[ $status -eq 0 ] && ok 'SIGINT ends it' || not_ok 'SIGINT ends it' "status $status"
wait $waiting
cp "$tmp/out" "$tmp/got"
says 'what did not end is told' '"ended":"stopped"' '"phase":"before_headers"'

# The words follow from request and seed.
for seed in 1 1 2; do
    start --seed $seed
    curl -s -d "$body" "$url/v1/chat/completions" >>"$tmp/seeds"
    echo >>"$tmp/seeds"
    stop TERM
done
[ "$(sort -u "$tmp/seeds" | wc -l)" -eq 2 ] && ok 'the same seed, the same words' ||
    not_ok 'the same seed, the same words' "$(cat "$tmp/seeds")"

# A port that is taken is not shared, also not by another mock.
start
first=$pid
run mock --port "${url##*:}"
expect 'a port that is taken' 1 "cannot listen on ${url#http://}: Address already in use"
pid=$first
stop TERM
finish
