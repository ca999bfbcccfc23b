#!/bin/sh
# demo.sh - what `make run` starts answers the calls that it tells people to make.
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
finish
