#!/bin/sh
# badinput.sh - what is wrong is said, with the line it is on, and the status is 2.
set -u
. "$(dirname "$0")/../lib/tap"

gcra=gcra:limit=10,period=1000,burst=5

# bad_spec SPEC WORDS...: --limiter SPEC is refused before anything is read.
bad_spec() {
    spec=$1
    shift
    echo '{"t":1}' >"$tmp/in"
    run replay --limiter "$spec" "$tmp/in"
    if [ -s "$tmp/out" ]; then
        not_ok "spec $spec" "something on stdout"
    else
        expect "spec $spec" 2 'tollgate replay: --limiter: ' "$@"
    fi
}

# bad_line LINE WORDS...: the third line of a trace is refused, the two before it are answered.
# LINE may hold what printf %b understands.
bad_line() {
    line=$1
    shift
    printf '{"t":1000}\n{"t":1000}\n%b\n{"t":1000}\n' "$line" >"$tmp/in"
    run replay --limiter $gcra "$tmp/in"
    name=$(printf '%s' "$line" | cut -c 1-60)
    if [ "$(wc -l <"$tmp/out")" -ne 2 ]; then
        not_ok "line $name" "not two lines of output:" "$(cat "$tmp/out")"
    else
        expect "line $name" 2 "tollgate replay: $tmp/in:3: " "$@"
    fi
}

# ---- Limiters

bad_spec '' 'unknown limiter' gcra token_bucket fixed_window sliding_window sliding_log token_budget
bad_spec 'leaky:rate=1' 'unknown limiter "leaky"' gcra token_budget
bad_spec 'GCRA:limit=1,period=1' 'unknown limiter'
bad_spec 'gcra' 'limit'
bad_spec 'gcra:' 'limit'
bad_spec 'gcra:limit=10' 'period'
bad_spec 'gcra:limit=10,period=1000,rate=1' '"rate"' limit period burst
bad_spec 'gcra:limit=10,period=1000,window=1' '"window"' limit period burst
bad_spec 'gcra:limit=10,limit=10,period=1000' 'limit' 'twice'
bad_spec 'gcra:limit,period=1000' 'limit'
bad_spec 'gcra:limit=,period=1000' 'limit'
bad_spec 'gcra:limit=0,period=1000' 'limit is 0' 'above 0'
bad_spec 'gcra:limit=-1,period=1000' 'limit is -1' 'above 0'
bad_spec 'gcra:limit=1.5,period=1000' 'limit is "1.5"' 'whole number'
bad_spec 'gcra:limit=1e3,period=1000' 'limit is "1e3"' 'whole number'
bad_spec 'gcra:limit=nan,period=1000' 'limit is "nan"' 'whole number'
bad_spec 'gcra:limit=ten,period=1000' 'limit is "ten"' 'whole number'
bad_spec 'gcra:limit= 1,period=1000' 'whole number'
bad_spec 'gcra:limit=9007199254740992,period=1000' 'limit' '9007199254740991'
bad_spec 'gcra:limit=99999999999999999999,period=1000' 'limit'
bad_spec 'gcra:limit=1,period=0' 'period'
bad_spec 'gcra:limit=1,period=10s' 'period is "10s"' 'whole number'
bad_spec 'gcra:limit=1,period=1000,burst=0' 'burst'
bad_spec 'gcra:limit=1,period=1000,' '""'
bad_spec 'token_bucket:capacity=10' 'refill'
bad_spec 'token_bucket:capacity=10,refill=0' 'refill is 0' 'above 0'
bad_spec 'token_bucket:capacity=10,refill=-1' 'refill is -1' 'above 0'
bad_spec 'token_bucket:capacity=10,refill=nan' 'refill is "nan"'
bad_spec 'token_bucket:capacity=10,refill=inf' 'refill is "inf"'
bad_spec 'token_bucket:capacity=10,refill=1e999' 'refill'
bad_spec 'token_bucket:capacity=10,refill=0x10' 'refill'
bad_spec 'token_bucket:limit=10,refill=1' '"limit"' capacity refill
bad_spec 'fixed_window:limit=5,period=1000' '"period"' limit window
bad_spec 'fixed_window:limit=5' 'window'
bad_spec 'sliding_window:limit=5,window=1000,buckets=0' 'buckets'
bad_spec 'sliding_window:limit=5,window=1000,buckets=100001' 'buckets' '100000'
bad_spec 'sliding_log:limit=5,window=-1000' 'window'
bad_spec 'token_budget:limit=5,window=1000' '"limit"' budget window

# ---- Lines

whole='must be a whole number of milliseconds from 0 to 9007199254740991, not'
bad_line '{"t":"1000"}' "\"t\" $whole a string"
bad_line '{"t":-1}' "\"t\" $whole a negative number"
bad_line '{"t":-1e3}' "\"t\" $whole a negative number"
bad_line '{"t":1.5}' "\"t\" $whole a fraction"
bad_line '{"t":null}' "\"t\" $whole null"
bad_line '{"t":true}' "\"t\" $whole a boolean"
bad_line '{"t":[1]}' "\"t\" $whole an array"
bad_line '{"t":{"t":1}}' "\"t\" $whole an object"
bad_line '{"t":9007199254740992}' "\"t\" $whole a larger number"
bad_line '{"t":1e16}' "\"t\" $whole a larger number"
bad_line '{"t":99999999999999999999}' "\"t\" $whole a number out of range"
bad_line '{"t":1e999}' "\"t\" $whole a number out of range"
bad_line '{"key":"a"}' '"t" is missing'
bad_line '{}' '"t" is missing'
bad_line '{"t":1,"key":1}' '"key" must be a string, not a number'
bad_line '{"t":1,"key":null}' '"key" must be a string, not null'
bad_line '{"t":1,"cost":-1}' '"cost" must be a whole number from 0 to 9007199254740991' 'a negative number'
bad_line '{"t":1,"cost":0.5}' '"cost" must be a whole number' 'a fraction'
bad_line '{"t":1,"cost":"1"}' '"cost" must be a whole number' 'a string'
bad_line '{"t":1,"cost":9007199254740992}' '"cost" must be a whole number' 'a larger number'
bad_line '{"t":1,"costs":1}' 'there is no field "costs"' '"t", "key" and "cost"'
bad_line '{"t":1,"T":1}' 'there is no field "T"'
bad_line '{"t":1,"op":"admit"}' 'there is no field "op"'
bad_line '{"t":1,"\\u001b[31m":1}' 'there is no field "?[31m"'
bad_line '{"t":1,"t":1}' 'the key "t" comes twice' 'byte 8'
bad_line '{"t":1,"key":"a","\\u006bey":"b"}' 'the key "key" comes twice'
bad_line '{"t":1' 'broken JSON'
bad_line '{"t":1}}' 'broken JSON' 'follows' 'byte 8'
bad_line '{"t":1}{"t":1}' 'broken JSON' 'follows'
bad_line '{"t":1,}' 'broken JSON'
bad_line '{"t":01}' 'broken JSON' 'not a number'
bad_line '{"t":}' 'broken JSON' 'missing'
bad_line '{"t":NaN}' 'broken JSON'
bad_line "{'t':1}" 'broken JSON'
bad_line '{t:1}' 'broken JSON'
bad_line '{"t":1,"key":"a}' 'broken JSON' 'not closed'
bad_line '{"t":1,"key":"\\q"}' 'broken JSON' 'escape'
bad_line '{"t":1,"key":"\0377"}' 'broken JSON' 'not UTF-8' 'byte 15'
bad_line '{"t":1,"key":"\0"}' 'broken JSON'
bad_line '{"t":1} # so' 'broken JSON'
bad_line '1000' 'broken JSON' 'neither an object nor an array'
bad_line 'null' 'broken JSON'
bad_line '"t"' 'broken JSON'
bad_line '[1000]' 'must be a JSON object, not an array'
bad_line 't=1000' 'broken JSON'
bad_line '\0357\0273\0277{"t":1}' 'broken JSON'

# Blank lines count.
printf '\n\n  \r\n{"t":1}\n\n{"t":"1"}\n' | "$TOLLGATE" replay --limiter $gcra >"$tmp/out" 2>"$tmp/err"
status=$?
expect 'blank lines count' 2 'tollgate replay: <stdin>:6: "t" must be'

awk 'BEGIN { for (i = 0; i < 100000; i++) printf "[" ; print "" }' >"$tmp/deep"
run replay --limiter $gcra "$tmp/deep"
expect 'brackets without end' 2 ':1: '
awk 'BEGIN { printf "{\"t\":"; for (i = 0; i < 1000; i++) printf "["; for (i = 0; i < 1000; i++) printf "]"; print "}" }' >"$tmp/deep"
run replay --limiter $gcra "$tmp/deep"
expect 'a thousand arrays' 2 ':1: "t" must be'

head -c 17000000 /dev/zero | tr '\0' ' ' >"$tmp/long"
run replay --limiter $gcra "$tmp/long"
expect 'a line of 17 MB' 2 ':1: a line may have 16777216 bytes'

# ---- Command lines

bad_command 'no command' 'usage: tollgate' replay bench help --
bad_command 'unknown command' "no command 'serv'" replay bench help -- serv
bad_command 'help for an unknown command' "no command 'serv'" replay -- help serv
bad_command 'help for two commands' 'one command' -- help replay bench
bad_command 'no limiter' '--limiter SPEC' -- replay
bad_command 'unknown option' 'no option --limit' '--limiter SPEC' -- replay --limit gcra
bad_command 'a store that is none' 'redis://' -- replay --limiter $gcra --store postgres://x
bad_command 'short option' 'no option -x' '--limiter SPEC' -- replay -x x
bad_command 'option without its argument' '--limiter needs SPEC' -- replay --limiter
bad_command 'option twice' '--limiter is given twice' -- replay --limiter $gcra --limiter $gcra
bad_command 'two traces' 'one trace' "'b'" -- replay --limiter $gcra a b
bad_command 'no such file' 'no/such: No such file or directory' -- replay --limiter $gcra no/such
bad_command 'a folder' 'Is a directory' -- replay --limiter $gcra .
bad_command 'bench with what it does not take' 'no option --jsom' '--json' -- bench --jsom
finish
