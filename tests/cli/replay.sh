#!/bin/sh
# replay.sh - where `tollgate replay` reads from, and where its output goes.
set -u
. "$(dirname "$0")/../lib/tap"

spec=gcra:limit=10,period=1000,burst=5
one='{"allowed":true,"limit":5,"remaining":4,"reset_at":1100,"retry_after":0}'
two='{"allowed":true,"limit":5,"remaining":2,"reset_at":1300,"retry_after":0}'

# prints NAME LINES: the last run was good and printed just this.
prints() {
    if [ "$status" -eq 0 ] && [ "$(cat "$tmp/out")" = "$2" ]; then
        ok "$1"
    else
        not_ok "$1" "status $status" "$(head -c 2000 "$tmp/err")" "$(head -c 2000 "$tmp/out")"
    fi
}

# ---- In

printf '{"t":1000}\n{"t":1000,"cost":2}\n' >"$tmp/in"
both="$one
$two"
run replay --limiter $spec "$tmp/in"
prints 'a file' "$both"
run replay --limiter=$spec -- "$tmp/in"
prints 'options and operands' "$both"
run replay "$tmp/in" --limiter $spec
prints 'an option after the file' "$both"
run replay --limiter $spec <"$tmp/in"
prints 'stdin' "$both"
run replay --limiter $spec - <"$tmp/in"
prints 'stdin by name' "$both"
run replay --limiter $spec </dev/null
prints 'nothing' ''

printf '\n{"t":1000}\r\n \t\n{ "cost" : 2.0 , "t" : 1e3 }' >"$tmp/in"
run replay --limiter $spec "$tmp/in"
prints 'blank lines, other line ends, other forms of a number' "$both"

printf '{"t":1000,"key":"a"}\n{"t":1000,"key":"\\u0061"}\n{"t":1000,"key":"b"}\n{"t":1000,"key":""}\n{"t":1000}\n' >"$tmp/in"
run replay --limiter fixed_window:limit=1,window=1000 "$tmp/in"
cut -c 1-16 "$tmp/out" >"$tmp/cut" && mv "$tmp/cut" "$tmp/out"
prints 'a key is what it says, however it is written; without one it is ""' '{"allowed":true,
{"allowed":false
{"allowed":true,
{"allowed":true,
{"allowed":false'

printf '{"t":1000,"cost":0}\n{"t":1000,"cost":6}\n{"t":1000,"cost":5}\n{"t":9007199254740991,"cost":9007199254740991}\n' >"$tmp/in"
run replay --limiter $spec "$tmp/in"
prints 'costs at the edges' '{"allowed":true,"limit":5,"remaining":5,"reset_at":1000,"retry_after":0}
{"allowed":false,"limit":5,"remaining":5,"reset_at":1000,"retry_after":9007199254740991}
{"allowed":true,"limit":5,"remaining":0,"reset_at":1500,"retry_after":0}
{"allowed":false,"limit":5,"remaining":5,"reset_at":9007199254740991,"retry_after":9007199254740991}'

# A key of some megabytes: the line is longer than every buffer was at first.
awk 'BEGIN {
    x = "0123456789abcdef"
    for (i = 0; i < 17; i++) x = x x
    printf "{\"t\":1000}\n{\"t\":1000,\"key\":\"%s\"}\n{\"t\":1000,\"cost\":2}\n", x
}' >"$tmp/in"
run replay --limiter $spec "$tmp/in"
prints 'a line of 2 MB' "$one
$one
$two"

# Time jumps ahead, thousands of keys come, time goes back: what was spent then is still spent.
awk 'BEGIN {
    print "{\"t\":1000,\"key\":\"a\"}"
    for (i = 0; i < 20000; i++) printf "{\"t\":1000000000,\"key\":\"k%d\"}\n", i
    print "{\"t\":1000,\"key\":\"a\"}"
}' >"$tmp/in"
run replay --limiter fixed_window:limit=1,window=1000 "$tmp/in"
tail -n 1 "$tmp/out" >"$tmp/last" && mv "$tmp/last" "$tmp/out"
prints 'no key is forgotten' '{"allowed":false,"limit":1,"remaining":0,"reset_at":2000,"retry_after":1000}'

# ---- Out

awk 'BEGIN { for (i = 0; i < 20000; i++) printf "{\"t\":%d}\n", i }' >"$tmp/in"
if [ -w /dev/full ]; then
    "$TOLLGATE" replay --limiter $spec "$tmp/in" >/dev/full 2>"$tmp/err"
    status=$?
    expect 'a full disk' 1 'tollgate replay: cannot write the output: No space left on device'
    "$TOLLGATE" --version >/dev/full 2>"$tmp/err"
    status=$?
    expect 'a full disk, and little to write' 1 'cannot write the output'
else
    skip 'a full disk' 'there is no /dev/full here'
    skip 'a full disk, and little to write' 'there is no /dev/full here'
fi

"$TOLLGATE" replay --limiter $spec "$tmp/in" >&- 2>"$tmp/err"
status=$?
expect 'no stdout at all' 1 'cannot write the output'

# The reader takes one line and goes.
{
    "$TOLLGATE" replay --limiter $spec "$tmp/in" 2>"$tmp/err"
    echo $? >"$tmp/status"
} | head -n 1 >"$tmp/out"
status=$(cat "$tmp/status")
if [ "$status" -eq 1 ] && [ ! -s "$tmp/err" ]; then
    ok 'a reader that goes away is no reason to complain'
else
    not_ok 'a reader that goes away is no reason to complain' "status $status" "$(cat "$tmp/err")"
fi

# An answer comes before the next question is asked. If it did not, this would wait for ever.
trap '' PIPE # if the program ends early, say so below
mkfifo "$tmp/to" "$tmp/from"
"$TOLLGATE" replay --limiter $spec <"$tmp/to" >"$tmp/from" 2>"$tmp/err" &
exec 3>"$tmp/to" 4<"$tmp/from"
echo '{"t":1000}' >&3
read -r first <&4
echo '{"t":1000,"cost":2}' >&3
read -r second <&4
exec 3>&-
wait $!
status=$?
if [ "$status" -eq 0 ] && [ "$first" = "$one" ] && [ "$second" = "$two" ]; then
    ok 'a live pipe'
else
    not_ok 'a live pipe' "status $status" "$first" "$second"
fi
finish
