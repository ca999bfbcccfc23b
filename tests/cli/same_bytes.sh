#!/bin/sh
# same_bytes.sh - the same trace gives the same bytes: again, by another compiler, at another level
# of optimisation.
#
# The trace is random, from a fixed seed: some keys that are hot and many that are not, a clock that
# goes on, stands, jumps ahead and steps back, costs from 0 to above every ceiling. Two limiters in
# three have rates that no double holds exactly.
set -u
. "$(dirname "$0")/../lib/tap"

awk 'function draw(n) { s = (s * 16807) % 2147483647; return s % n }
BEGIN {
    s = 20240229
    t = 1700000000000
    for (i = 0; i < 20000; i++) {
        what = draw(1000)
        if (what < 300) t += draw(5)
        else if (what < 900) t += draw(200)
        else if (what < 960) t += draw(100000)
        else if (what < 990) t -= draw(60000)
        else if (what < 995) t -= draw(2000000000)
        else if (what < 998) t += draw(2000000000)
        else t = draw(100000) * 1000003
        if (t < 0) t = 0
        key = draw(10) < 7 ? "hot-" draw(3) : "k" draw(3000)
        cost = draw(20)
        cost = cost < 12 ? 1 : cost < 19 ? draw(9) : draw(40)
        if (draw(500) == 0) cost = 9007199254740991 - draw(3)
        printf "{\"t\":%.0f,\"key\":\"%s\",\"cost\":%.0f}\n", t, key, cost
    }
}' >"$tmp/trace.jsonl"

limiters='gcra:limit=10,period=1000,burst=5
gcra:limit=7,period=1000
gcra:limit=9007199254740991,period=977,burst=13
token_bucket:capacity=10,refill=5
token_bucket:capacity=23,refill=0.3333
token_bucket:capacity=1000000007,refill=3e-3
fixed_window:limit=17,window=1000
sliding_window:limit=19,window=1000,buckets=10
sliding_window:limit=19,window=1000,buckets=7
sliding_log:limit=13,window=1009
token_budget:budget=31,window=60000'

# replay_all PROGRAM FILE: the decisions of every limiter, one after the other.
replay_all() {
    for limiter in $limiters; do
        echo "# $limiter"
        "$1" replay --limiter "$limiter" "$tmp/trace.jsonl" || echo "# status $?"
    done >"$2" 2>&1
}

# compare NAME PROGRAM
compare() {
    if [ -z "$2" ]; then
        skip "$1" "there is no such program: make test builds it"
        return
    fi
    replay_all "$2" "$tmp/other"
    if cmp -s "$tmp/first" "$tmp/other"; then
        ok "$1"
    else
        not_ok "$1" "$(diff "$tmp/first" "$tmp/other" | head -n 6)"
    fi
}

replay_all "$TOLLGATE" "$tmp/first"
lines=$(grep -c '^{"allowed":' "$tmp/first")
allowed=$(grep -c '^{"allowed":true' "$tmp/first")
if [ "$lines" -eq 220000 ] && ! grep -q '^# status' "$tmp/first"; then
    ok "every call is decided ($allowed of $lines admitted)"
else
    not_ok "every call is decided" "$lines of 220000 lines" "$(grep -v '^{' "$tmp/first" | head)"
fi
if [ "$allowed" -gt 22000 ] && [ "$allowed" -lt 198000 ]; then
    ok 'neither nearly all nor nearly none is admitted'
else
    not_ok 'neither nearly all nor nearly none is admitted' "$allowed of $lines"
fi
compare 'the same program again' "$TOLLGATE"
compare 'gcc -O0' "${TOLLGATE_O0:-}"
compare 'gcc -O3' "${TOLLGATE_O3:-}"
compare 'clang -O0' "${TOLLGATE_CLANG_O0:-}"
compare 'clang -O3' "${TOLLGATE_CLANG_O3:-}"
compare 'without asserts' "${TOLLGATE_SHIP:-}"
[ -z "${TOLLGATE_X86_64:-}" ] || compare 'x86-64' "$TOLLGATE_X86_64"
finish
