#!/bin/sh
# replay_gate.sh - `tollgate replay -c`: a whole gate in virtual time gives its known answers, and the
# same bytes each time and by every compiler.
set -u
. "$(dirname "$0")/../lib/tap"

# ---- Known answers

replay_gates

# ---- What is wrong is said, with its line

cat >"$tmp/one.yaml" <<'END'
gate:
  concurrency: {law: fixed, initial: 1}
tenants:
  - {name: a}
END

# bad_line LINE WORDS...: the third line is refused; the two before it are answered.
bad_line() {
    line=$1
    shift
    printf '{"t":1000,"id":"x"}\n{"t":1000,"priority":"low"}\n%s\n' "$line" >"$tmp/in"
    run replay -c "$tmp/one.yaml" "$tmp/in"
    if [ "$(wc -l <"$tmp/out")" -ne 2 ]; then
        not_ok "line $line" 'not two lines of output:' "$(cat "$tmp/out" "$tmp/err")"
    else
        expect "line $line" 2 "tollgate replay: $tmp/in:3: " "$@"
    fi
}
bad_line '{"t":1000,"id":"x"}' 'the id is in use'
bad_line '{"t":1000,"op":"release"}' '"id" is missing'
bad_line '{"t":1000,"op":"memory"}' '"used" is missing'
bad_line '{"t":1000,"op":"memory","used":1.5}' '"used" must be a number from 0 to 1'
bad_line '{"t":1000,"op":"memory","used":-0.5}' '"used" must be a number from 0 to 1, not a negative'
bad_line '{"t":1000,"op":"admitted"}' '"op" is "admitted"' 'admit, release, memory, limits or first_byte'
bad_line '{"t":1000,"op":1}' '"op" must be a string, not a number'
bad_line '{"op":"limits"}' '"t" is missing'
bad_line '{"t":1000,"priority":"urgent"}' '"priority" is "urgent"' 'high, normal or low'
bad_line '{"t":1000,"outcome":"fine"}' '"outcome" is "fine"' 'ok, dropped or cancelled'
bad_line '{"t":1000,"id":1.5}' '"id" must be a string or a whole number'
bad_line '{"t":1000,"id":null}' '"id" must be a string or a whole number, not null'
bad_line '{"t":1000,"peer":7}' '"peer" must be a string, not a number'
bad_line '{"t":1000,"value":-1}' '"value" must be a number from 0'
bad_line '{"t":1000,"hold":"5s"}' '"hold" must be a number of seconds'
bad_line '{"t":1000,"sample":"x"}' '"sample" must be a number of milliseconds'
bad_line '{"t":1000,"actual":1.5}' '"actual" must be a whole number' 'a fraction'
bad_line '{"t":1000,"cots":1}' 'there is no field "cots"' '"op"' '"used"'
bad_line '{"t":1000' 'broken JSON'

printf '{"t":1000,"id":"x"}\n{"t":1000,"id":"w"}\n{"t":1001,"id":"w"}\n' >"$tmp/in"
run replay -c "$tmp/one.yaml" "$tmp/in"
expect 'the id of a call that waits is in use' 2 ':3: the id is in use'

printf 'gate:\n  rate: {strategy: gcra, limit: 0, period: 1s}\n  perrs: {}\n' >"$tmp/bad.yaml"
bad_command 'a bad configuration' "$tmp/bad.yaml:2:" "$tmp/bad.yaml:3:3: " -- replay -c "$tmp/bad.yaml"
bad_command 'no such configuration' 'no/such.yaml' -- replay -c no/such.yaml
bad_command 'both kinds' 'not both' -- replay -c "$tmp/one.yaml" --limiter gcra:limit=1,period=1
bad_command 'compare without -c' '--compare needs -c' -- replay --compare x --limiter gcra:limit=1,period=1
bad_command 'seed without -c' '--seed needs -c' -- replay --seed 1 --limiter gcra:limit=1,period=1
bad_command 'a seed that is none' "--seed is '-1'" -- replay -c "$tmp/one.yaml" --seed -1
bad_command 'a seed that is too large' '--seed is' -- replay -c "$tmp/one.yaml" --seed 18446744073709551616
bad_command 'a bad second configuration' "$tmp/bad.yaml:3:3: " -- \
    replay -c "$tmp/one.yaml" --compare "$tmp/bad.yaml"

{
    printf 'tenants:\n  - name: a\n    limits:\n'
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do
        echo "      - {models: [\"m$i\"], rpm: 1}"
    done
} >"$tmp/many.yaml"
echo '{"t":1000,"key":"a","model":"m7"}' >"$tmp/in"
run replay -c "$tmp/many.yaml" "$tmp/in"
expect 'limits for seventeen models' 0
sed 's/"m[0-9]*"/"m*"/' "$tmp/many.yaml" >"$tmp/overlap.yaml"
run replay -c "$tmp/overlap.yaml" "$tmp/in"
expect 'seventeen limits for one model' 2 "$tmp/overlap.yaml:4:7: " 'tenant "a"' '17 sets of limits' 'at most 16 are allowed'

# Variables that only a gateway needs may be missing.
cat >"$tmp/secret.yaml" <<'END'
providers:
  demo: {base_url: "http://127.0.0.1:9", api: openai, keys: [{name: k, secret: "${NO_SUCH_VARIABLE}"}]}
END
echo '{"t":1000}' >"$tmp/in"
run replay -c "$tmp/secret.yaml" "$tmp/in"
if [ ! -s "$tmp/err" ]; then
    expect 'a secret that is not there' 0
else
    not_ok 'a secret that is not there' "$(cat "$tmp/err")"
fi

# ---- Comparing

cat >"$tmp/strict.yaml" <<'END'
gate:
  concurrency: {law: fixed, initial: 1}
  rate: {strategy: gcra, limit: 2, period: 60s}
tenants:
  - {name: a, rate: {strategy: gcra, limit: 1, period: 60s}}
  - {name: new}
END
cat >"$tmp/in" <<'END'
{"t":1000,"key":"a","id":1}
{"t":1000,"key":"a","id":2,"priority":"low"}
{"t":1001,"op":"release","id":1}
{"t":1001,"key":"a","id":2}
{"t":1002,"op":"release","id":2}
{"t":1003,"key":"new","id":3}
{"t":1004,"op":"memory","used":0.5}
{"t":1004,"op":"release","id":3}
{"t":1005,"key":"x","id":4}
{"t":1005,"op":"limits"}
END
cat >"$tmp/want" <<END
first:  $tmp/one.yaml
second: $tmp/strict.yaml

tenant            calls       first      second     refused    admitted
a                     3           2           1           1           0
new                   1           1           1           0           0
(no tenant)           1           1           1           0           0
all                   5           4           3           1           0

a: 1 that only the first admits
  line 4, t 1001: admitted -> rate
END
run replay -c "$tmp/one.yaml" --compare "$tmp/strict.yaml" "$tmp/in"
if [ "$status" -eq 1 ] && cmp -s "$tmp/out" "$tmp/want"; then
    ok 'what a stricter configuration would have refused'
else
    not_ok 'what a stricter configuration would have refused' "status $status" "$(cat "$tmp/err")" \
        "$(diff "$tmp/want" "$tmp/out")"
fi

# Under the second, 2 is admitted at 1000 and comes again while it is open: that is no mistake of the trace.
cat >"$tmp/loose.yaml" <<'END'
gate:
  concurrency: {law: fixed, initial: 9}
END
run replay -c "$tmp/one.yaml" --compare "$tmp/loose.yaml" "$tmp/in"
if grep -q '  line 2, t 1000: concurrency -> admitted' "$tmp/out"; then
    expect 'what a looser configuration would have admitted' 1
else
    not_ok 'what a looser configuration would have admitted' "$(cat "$tmp/out" "$tmp/err")"
fi

run replay -c "$tmp/one.yaml" --compare "$tmp/one.yaml" "$tmp/in"
expect 'a comparison in which nothing differs ends with 0' 0

# ---- The same bytes

cat >"$tmp/all.yaml" <<'END'
gate:
  charging: per-axis
  lease_ttl: 300ms
  concurrency: {law: vegas, initial: 20, min: 4, max: 40, window: 200ms}
  queue: {size: 30, wait: {high: 200ms, normal: 100ms, low: 20ms}, shares: {normal: 0.2, low: 0.05}}
  peers: {limit: 12}
  memory: {}
  rate: {strategy: sliding_window, limit: 60, window: 1s}
  cost: {strategy: token_bucket, capacity: 1000, refill: 1500}
tenants:
  - {name: t0, weight: 3, priority: high, concurrency: 15}
  - {name: t1, parent: t0, limits: [{rpm: 30}, {models: ["m-*"], tpm: 90000}], mode: shadow}
  - {name: t2, parent: t0, users: {from: "header:u", each: {rpm: 900}}}
END
sed 's/law: vegas/law: gradient2/; s/per-axis/atomic/' "$tmp/all.yaml" >"$tmp/all2.yaml"
awk 'function draw(n) { s = s * 16807 % 2147483647; return s % n }
function release(t, id) {
    printf "{\"t\":%d,\"op\":\"release\",\"id\":%d,\"outcome\":\"%s\",\"actual\":%d}\n", t, id,
        draw(50) == 0 ? "dropped" : "ok", draw(90)
}
BEGIN {
    s = 12345
    split("high normal normal low", priority, " ")
    for (i = 0; i < 12000; i++) {
        t += draw(6)
        if (draw(400) == 0) printf "{\"t\":%d,\"op\":\"limits\"}\n", t
        if (draw(300) == 0) printf "{\"t\":%d,\"op\":\"memory\",\"used\":0.%d}\n", t, draw(100)
        if (i > 40) release(t, i - 20 - draw(20))
        printf "{\"t\":%d,\"key\":\"t%d\",\"id\":%d,\"cost\":%d,\"priority\":\"%s\",", t, draw(5), i,
            draw(60), priority[draw(4) + 1]
        printf "\"user\":\"u%d\",\"model\":\"m-%d\",\"peer\":\"p%d\"}\n", draw(3), draw(3), draw(4)
    }
}' >"$tmp/in"

# What `serve --record` wrote before it said its version is a trace without ends, and a warning says so.
printf '%s\n' '{"t":1000,"id":"req_1","tenant":"a","model":"m","user":"u","priority":"normal","input_tokens":3,"max_output_tokens":9,"output_tokens":4,"stream":true,"cost":12,"value":1,"status":200,"latency_ms":10,"ttfb_ms":2}' \
    '{"t":1001,"id":"req_2","tenant":"a","model":"m","priority":"normal","stream":false,"cost":12,"status":429,"reason":"rate","latency_ms":0}' >"$tmp/recorded"
printf '%s\n' 'gate:' '  rate: {strategy: fixed_window, limit: 1, window: 60s}' >"$tmp/one.yaml"
"$TOLLGATE" replay -c "$tmp/one.yaml" "$tmp/recorded" >"$tmp/decided" 2>&1
if [ "$(grep -c '"allowed":true.*"id":"req_1"\|"id":"req_1".*"allowed":true' "$tmp/decided")" -eq 1 ] &&
    [ "$(grep -c '"reason":"rate"' "$tmp/decided")" -eq 1 ] &&
    [ "$(grep -c 'warning: these lines are a recording without its first line' "$tmp/decided")" -eq 1 ]; then
    ok 'D6 S2 a recording without its version is read as a trace, with one warning'
else
    not_ok 'D6 S2 a recording without its version is read as a trace, with one warning' "$(cat "$tmp/decided")"
fi

# all_of PROGRAM: what it prints for both configurations.
all_of() {
    "$1" replay -c "$tmp/all.yaml" --seed 7 "$tmp/in" 2>&1
    echo "# status $?"
    "$1" replay -c "$tmp/all2.yaml" "$tmp/in" 2>&1
    echo "# status $?"
}
all_of "$TOLLGATE" >"$tmp/first"
if [ "$(grep -c '# status 0' "$tmp/first")" -eq 2 ] &&
    grep -q '"reason":"concurrency"' "$tmp/first" && grep -q '"reason":"rate"' "$tmp/first" &&
    grep -q '"reason":"cost"' "$tmp/first" && grep -q '"reason":"peer_limit"' "$tmp/first" &&
    grep -q '"reason":"memory_pressure"' "$tmp/first" && grep -q would_deny "$tmp/first"; then
    ok 'a random trace meets every stage'
else
    not_ok 'a random trace meets every stage' "$(grep -v '^{' "$tmp/first")" "$(wc -l <"$tmp/first")" \
        "$(grep -o '"reason":"[a-z_]*"' "$tmp/first" | sort | uniq -c)"
fi

# Every call has one answer, or was withdrawn: released while it waited. Who was is seen from outside: with the
# limits asked for around each release, it is one that takes more calls from the queue than are answered.
awk '/"op":"release"/ { match($0, /"t":[0-9]+/); limits = "{" substr($0, RSTART, RLENGTH) ",\"op\":\"limits\"}"
    print limits; print; print limits; next }
{ print }' "$tmp/in" >"$tmp/watched"
"$TOLLGATE" replay -c "$tmp/all.yaml" --seed 7 "$tmp/watched" >"$tmp/answers"
awk 'function field(name) { return match($0, "\"" name "\":[0-9]+") ? \
    substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0 : -1 }
FNR == NR {
    if (/"op":"limits"/) { n++; if (released >= 0) after[n] = released }
    released = /"op":"release"/ ? field("id") : -1
    if (!/"op"/) came[field("id")] = 1
    next
}
field("id") >= 0 { answers[field("id")]++; since++; next }
{
    left = queued - field("queued") - since
    if (++asked in after && left != 0) { answers[after[asked]] += left; withdrawn += left }
    queued = field("queued")
    since = 0
}
END {
    for (id in came) { calls++; if (answers[id] != 1) print "call " id ": " answers[id] + 0 " answers" }
    for (id in answers) if (!(id in came)) print "call " id " never came"
    if (calls != 12000 || asked != n || withdrawn < 100)
        print calls " calls, " asked " of " n " limits, " withdrawn + 0 " withdrawn"
}' "$tmp/watched" "$tmp/answers" >"$tmp/wrong"
if [ ! -s "$tmp/wrong" ]; then
    ok 'every call has one answer, or was withdrawn'
else
    not_ok 'every call has one answer, or was withdrawn' "$(head -n 6 "$tmp/wrong")"
fi

# compare NAME PROGRAM
compare() {
    if [ -z "$2" ]; then
        skip "$1" 'not built by this run'
        return
    fi
    all_of "$2" >"$tmp/again"
    if cmp -s "$tmp/first" "$tmp/again"; then
        ok "the same bytes: $1"
    else
        not_ok "the same bytes: $1" "$(diff "$tmp/first" "$tmp/again" | head -n 6)"
    fi
}
compare 'the same program again' "$TOLLGATE"
compare 'gcc -O0' "${TOLLGATE_O0:-}"
compare 'gcc -O3' "${TOLLGATE_O3:-}"
compare 'clang -O0' "${TOLLGATE_CLANG_O0:-}"
compare 'clang -O3' "${TOLLGATE_CLANG_O3:-}"
compare 'without asserts' "${TOLLGATE_SHIP:-}"
[ -z "${TOLLGATE_X86_64:-}" ] || compare 'x86-64' "$TOLLGATE_X86_64"
finish
