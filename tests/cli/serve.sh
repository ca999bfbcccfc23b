#!/bin/sh
# serve.sh - `tollgate serve`: how it starts, what its edges answer, how it ends.
set -u
. "$(dirname "$0")/../lib/tap"

pid= reader= upstream=
cleanup() {
    for each in $pid $upstream; do
        kill "$each" 2>/dev/null
    done
    rm -rf "$tmp"
}
trap cleanup EXIT

# start FILE ARGUMENTS...: returns when it listens, with $pid, $gateway and $probe; what it says from
# then on goes to $tmp/log, and is complete when $reader has ended.
start() {
    file=$1
    shift
    rm -f "$tmp/pipe"
    mkfifo "$tmp/pipe"
    "$TOLLGATE" serve -c "$file" "$@" 2>"$tmp/pipe" &
    pid=$!
    exec 5<"$tmp/pipe"
    while read -r line <&5; do
        case $line in
        *'listening on '*) break ;;
        esac
    done
    gateway=$(echo "$line" | sed -n 's/.* on \([^ ]*\) (gateway).*/\1/p')
    probe=$(echo "$line" | sed -n 's/.*, \([^ ]*\) (probe).*/\1/p')
    cat <&5 >"$tmp/log" &
    reader=$!
    exec 5<&-
}

# ends NAME STATUS: tells it to end, and it does so with this status.
ends() {
    kill -TERM "$pid"
    wait "$pid"
    status=$?
    wait "$reader"
    pid=
    [ "$status" -eq "$2" ] && ok "$1" || not_ok "$1" "ended with $status" "$(cat "$tmp/log")"
}

# get NAME STATUS WORDS ARGUMENTS...: curl's arguments; the reply has this status and these words.
get() {
    name=$1 want=$2 words=$3
    shift 3
    code=$(curl -sS -i -o "$tmp/reply" -w '%{http_code}' "$@" 2>"$tmp/err")
    if [ "$code" = "$want" ] && grep -qF -e "$words" "$tmp/reply"; then
        ok "$name"
    else
        not_ok "$name" "status $code, wanted $want and '$words'" "$(cat "$tmp/reply" "$tmp/err")"
    fi
}

# ---- What it does not start with ----

run serve
expect 'without a configuration' 2 '-c FILE is missing'
run serve -c "$tmp/a" "$tmp/b"
expect 'one argument too many' 2 "unexpected argument '$tmp/b'"
run serve -c "$tmp/none.yaml"
expect 'a file that is not there' 2 'none.yaml'

echo 'listen: {gateway: 127.0.0.1:0, gate: x}' >"$tmp/wrong.yaml"
run serve -c "$tmp/wrong.yaml"
expect 'a configuration that is wrong' 2 'wrong.yaml:1:' '1 error in the configuration'

cat >"$tmp/recorded.yaml" <<'END'
listen: {gateway: "127.0.0.1:0"}
ledger: {path: ":memory:"}
END
run serve -c "$tmp/recorded.yaml" --record "$tmp/no/folder"
expect 'nowhere to record to' 2 "--record $tmp/no/folder cannot be written: No such file"

echo 'listen: {probe: "127.0.0.1:0"}' >"$tmp/silent.yaml"
run serve -c "$tmp/silent.yaml"
expect 'nothing to listen on' 2 'listen.gateway is missing'

cat >"$tmp/missing.yaml" <<'END'
listen: {gateway: "127.0.0.1:0"}
ledger: {path: ":memory:"}
admin_auth: {token: "${TG_THIS_IS_NOT_SET}"}
END
run check -c "$tmp/missing.yaml"
expect 'what is missing is a warning for check' 0 'warning: the environment variable'
run serve -c "$tmp/missing.yaml"
expect 'what is missing is an error here' 2 'the environment variable TG_THIS_IS_NOT_SET'

cat >"$tmp/elsewhere.yaml" <<'END'
listen: {gateway: "192.0.2.1:1"}
ledger: {path: ":memory:"}
END
run serve -c "$tmp/elsewhere.yaml"
expect 'an address that is not ours' 1 'cannot listen on 192.0.2.1:1'

# ---- The probe ----

cat >"$tmp/one.yaml" <<'END'
listen: {gateway: "127.0.0.1:0", probe: "127.0.0.1:0"}
ledger: {path: ":memory:"}
workers: 1
END
start "$tmp/one.yaml"
upstream=$pid
upstream_probe=$probe
get '/healthz' 200 ok "http://$probe/healthz"
get '/readyz' 200 ok "http://$probe/readyz"
get '/metrics' 200 'tollgate_build_info{version="' "http://$probe/metrics"
get '/metrics has its type' 200 'content-type: text/plain; version=0.0.4' "http://$probe/metrics"
get 'any other page' 404 '/healthz' "http://$probe/v1/models"
get 'any other method' 405 'allow: GET, HEAD' -d x "http://$probe/metrics"
if [ -r "/proc/$pid/limits" ]; then
    grep -q 'Max core file size  *0  *0' "/proc/$pid/limits" && ok 'no core dumps' ||
        not_ok 'no core dumps' "$(grep core "/proc/$pid/limits")"
fi

# ---- The gateway's edge ----
# The probe of the first one is the upstream that the second one protects.

cat >"$tmp/two.yaml" <<END
listen: {gateway: "127.0.0.1:0", probe: "127.0.0.1:0"}
ledger: {path: ":memory:"}
workers: 1
gate: {concurrency: {}, peers: {}}
protect:
  - {prefix: /healthz, upstream: "http://$upstream_probe"}
  - {prefix: /gone, upstream: "http://127.0.0.1:1"}
END
start "$tmp/two.yaml"
get 'a protected route' 200 ok -H 'authorization: Bearer hush-hush' "http://$gateway/healthz?x=1"
get 'a protected route, by HEAD' 200 'content-length: 3' -I "http://$gateway/healthz"
get 'what the upstream refuses' 405 'GET and HEAD' -d x "http://$gateway/healthz"
get 'below a route' 404 'there are /healthz' "http://$gateway/healthz/below"
get 'beside a route' 404 'x-tollgate-reason: not_found' "http://$gateway/healthzz"
get 'an upstream that is not there' 502 '"code":"upstream_error"' "http://$gateway/gone"
get 'a call without a key' 401 'x-tollgate-reason: invalid_api_key' -d '{}' \
    "http://$gateway/v1/chat/completions"
get 'calls are counted' 200 'tollgate_calls_total 7' "http://$probe/metrics"
get 'no call is left open' 200 'tollgate_open_calls 0' "http://$probe/metrics"

kill -HUP "$pid"
tries=0 # to end means to read nothing any more, so that comes later
until grep -q 'the configuration was read again' "$tmp/log" || [ $((tries += 1)) -gt 400 ]; do
    sleep 0.05
done
ends 'told to end, it ends' 0
grep -q 'the configuration was read again' "$tmp/log" && ok 'SIGHUP is answered by a line' ||
    not_ok 'SIGHUP is answered by a line' "$(cat "$tmp/log")"
lines=$(grep -c '"msg":"request"' "$tmp/log")
[ "$lines" -eq 7 ] && ok 'a line for each call' || not_ok 'a line for each call' "$(cat "$tmp/log")"
grep -q '"endpoint":"protect".*"route":"/gone".*"status":502,"reason":"upstream_error"' "$tmp/log" &&
    ok 'the line says why' || not_ok 'the line says why' "$(cat "$tmp/log")"
grep -q hush "$tmp/log" && not_ok 'no secret is logged' "$(cat "$tmp/log")" || ok 'no secret is logged'
finish
