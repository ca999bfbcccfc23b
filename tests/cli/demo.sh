#!/bin/sh
# demo.sh - what `make run` starts answers the calls that it tells people to make, and its
# configuration is one that `check` has nothing to say about.
set -u
. "$(dirname "$0")/../lib/tap"

RUN_ONCE=1 TOLLGATE=$TOLLGATE tools/demo >"$tmp/out" 2>"$tmp/err" </dev/null
status=$?
if [ "$status" -eq 0 ] && grep -q '^All is well' "$tmp/out"; then
    ok 'the commands that are shown work'
else
    not_ok 'the commands that are shown work' "status $status" "$(cat "$tmp/out" "$tmp/err")"
fi
grep -q sk-mock "$tmp/out" "$tmp/err" && not_ok 'no provider key is shown' "$(cat "$tmp/err")" ||
    ok 'no provider key is shown'
grep -q -i 'warning\|level=warn\|level=error' "$tmp/out" "$tmp/err" &&
    not_ok 'it warns of nothing' "$(grep -i 'warn\|level=error' "$tmp/out" "$tmp/err")" ||
    ok 'it warns of nothing'

# The same configuration by `check`: variables as tools/demo sets them, keys that nobody guesses.
hash=$("$TOLLGATE" key new | sed -n 's/.*sha256: "\([0-9a-f]*\)".*/\1/p')
other=$("$TOLLGATE" key new | sed -n 's/.*sha256: "\([0-9a-f]*\)".*/\1/p')
DEMO_GATEWAY=127.0.0.1:8080 DEMO_PROBE=127.0.0.1:8081 DEMO_ADMIN=127.0.0.1:9090 \
    DEMO_ADMIN_TOKEN=$hash DEMO_UPSTREAM=http://127.0.0.1:9099 DEMO_KEY_1=a DEMO_KEY_2=b \
    DEMO_KEY_3=c DEMO_RESEARCH_SHA256=$hash DEMO_WEBSITE_SHA256=$other \
    "$TOLLGATE" check -c examples/demo.yaml >"$tmp/out" 2>"$tmp/err"
status=$?
same 'check finds it good' '0 examples/demo.yaml is good' "$status $(head -n 1 "$tmp/out")"
same 'and says nothing else' '' "$(cat "$tmp/err")"
finish
