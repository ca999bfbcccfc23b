#!/bin/sh
# golden.sh - every limiter gives its known answers, field by field, through `tollgate replay`.
#
# The answers are in golden/vectors.txt. Each refusal there is also put to the test: the same call,
# retry_after later and nothing between, is admitted, and one millisecond earlier it is not. That is
# why one answer is marked as repaired: its original retry_after, of 100, is too short.
set -u
. "$(dirname "$0")/../lib/tap"

# One suite becomes three files, named by its number: .spec, .jsonl and .want; each refusal two more
# traces, retry-N-M.jsonl: the calls before it, then itself later; .retry says the first admitted.
awk -v dir="$tmp" '
function field(name, value) { return "\"" name "\":" value }
function call(t, cost) { return "{" field("t", t) "," field("cost", cost) "}" }
$1 == "suite" {
    n++
    before = ""
    print $2 > (dir "/" n ".name")
    print $3 > (dir "/" n ".spec")
}
$3 == "->" {
    retry = $8
    if ($9 == "repaired") {
        retry = $10
        print "# repaired: " $0
    }
    print call($1, $2) > (dir "/" n ".jsonl")
    print "{" field("allowed", $4 == "T" ? "true" : "false") "," field("limit", $5) "," \
        field("remaining", $6) "," field("reset_at", $7) "," field("retry_after", retry) "}" \
        > (dir "/" n ".want")
    if ($4 == "F") {
        m++
        printf "%s%s\n", before, call($1 + retry, $2) > (dir "/retry-" n "-" m ".admitted")
        printf "%s%s\n", before, call($1 + retry - 1, $2) > (dir "/retry-" n "-" m ".refused")
    } else {
        before = before call($1, $2) "\n"
    }
}
' "$here/golden/vectors.txt"

suites=$(ls "$tmp" | grep -c '\.spec$')
calls=$(cat "$tmp"/*.want | wc -l)
if [ "$suites" -eq 12 ] && [ "$calls" -eq 68 ]; then
    ok "12 suites, 68 calls"
else
    not_ok "12 suites, 68 calls" "there are $suites and $calls"
fi

suite=1
while [ "$suite" -le "$suites" ]; do
    name=$(cat "$tmp/$suite.name")
    spec=$(cat "$tmp/$suite.spec")
    run replay --limiter "$spec" "$tmp/$suite.jsonl"
    if [ "$status" -eq 0 ] && cmp -s "$tmp/out" "$tmp/$suite.want"; then
        ok "$name"
    else
        not_ok "$name" "status $status" "$(cat "$tmp/err")" "$(diff "$tmp/$suite.want" "$tmp/out")"
    fi

    wrong=
    tried=0
    for trace in "$tmp/retry-$suite"-*; do
        [ -f "$trace" ] || continue
        tried=$((tried + 1))
        case $trace in
        *.admitted) want='"allowed":true' ;;
        *) want='"allowed":false' ;;
        esac
        run replay --limiter "$spec" "$trace"
        tail -n 1 "$tmp/out" | grep -q "$want" || wrong="$wrong $(tail -n 1 "$trace")"
    done
    if [ "$tried" -eq 0 ]; then
        : # nothing is refused in this suite
    elif [ -z "$wrong" ]; then
        ok "$name: retry_after is when it is admitted"
    else
        not_ok "$name: retry_after is when it is admitted" "wrong:$wrong"
    fi
    suite=$((suite + 1))
done
finish
