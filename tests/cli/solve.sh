#!/bin/sh
# solve.sh - workloads as JSON: what is printed, and what is refused with the place it is at.
set -u
. "$(dirname "$0")/../lib/tap"

# solves NAME WORKLOAD OUTPUT: exactly this line, and nothing on stderr.
solves() {
    printf '%s' "$2" >"$tmp/in"
    run solve "$tmp/in"
    if [ "$status" -eq 0 ] && [ "$(cat "$tmp/out")" = "$3" ] && [ ! -s "$tmp/err" ]; then
        ok "$1"
    else
        not_ok "$1" "status $status" "$(cat "$tmp/out" "$tmp/err")"
    fi
}

# refuses WORKLOAD WHERE WORDS...: status 2, nothing on stdout, the place in front of the words.
refuses() {
    workload=$1
    where=$2
    shift 2
    printf '%b' "$workload" >"$tmp/in"
    run solve "$tmp/in"
    name=$(printf '%s' "$workload" | cut -c 1-80)
    if [ -s "$tmp/out" ]; then
        not_ok "$name" "something on stdout"
    else
        expect "$name" 2 "tollgate solve: $tmp/in$where: " "$@"
    fi
}

canonical='{"types":[{"cost":100,"value":1,"weight":0.5},{"cost":10000,"value":50,"weight":0.5}],"rate_budget":1,"cost_budget":50}'
answer='{"duals":{"rate":0,"cost":0.01,"concurrency":0},"admit_fractions":[1,0],"objective":0.5}'

solves 'the canonical workload' "$canonical" "$answer"
solves 'null is as left out' \
    '{"arrivals":null,"types":[{"cost":100,"value":1,"weight":0.5,"hold":null},{"hold":0,"cost":10000,"value":50,"weight":0.5}],"rate_budget":1,"cost_budget":50,"conc_budget":null}' \
    "$answer"
solves 'arrivals make weights shares' \
    '{"types":[{"cost":100,"value":1,"weight":3},{"cost":10000,"value":50,"weight":3}],"rate_budget":1000,"cost_budget":50000,"arrivals":1000}' \
    '{"duals":{"rate":0,"cost":0.01,"concurrency":0},"admit_fractions":[1,0],"objective":500}'
solves 'three axes' \
    '{"types":[{"cost":100,"value":10,"weight":1800,"hold":15},{"cost":100,"value":10,"weight":200,"hold":200}],"rate_budget":2000,"cost_budget":1e9,"conc_budget":20000}' \
    '{"duals":{"rate":0,"cost":0,"concurrency":0.6666666666666666},"admit_fractions":[0.7407407407407407,0],"objective":13333.333333333332}'
solves 'a whole-number answer' '{"types":[{"cost":10,"value":5,"weight":2}],"rate_budget":100,"cost_budget":10}' \
    '{"duals":{"rate":0,"cost":0.5,"concurrency":0},"admit_fractions":[0.5],"objective":5}'

# Both ways to say stdin.
for how in '' -; do
    # shellcheck disable=SC2086
    printf '%s\n' "$canonical" | "$TOLLGATE" solve $how >"$tmp/out" 2>"$tmp/err"
    [ "$(cat "$tmp/out")" = "$answer" ] && ok "stdin by '$how'" || not_ok "stdin by '$how'" "$(cat "$tmp/err")"
done

# The wiki's example: shares of one call beside budgets of a window.
printf '%s' '{"types":[{"cost":100,"value":1,"weight":0.5},{"cost":10000,"value":50,"weight":0.5}],"rate_budget":1000,"cost_budget":50000}' >"$tmp/in"
run solve "$tmp/in"
expect 'a workload whose budgets cannot bind is a warning' 0 'warning: no budget binds' inert
[ "$(cat "$tmp/out")" = '{"duals":{"rate":0,"cost":0,"concurrency":0},"admit_fractions":[1,1],"objective":25.5}' ] &&
    ok 'and is solved' || not_ok 'and is solved' "$(cat "$tmp/out")"

# As many types as are allowed, and one more.
many() {
    awk -v n="$1" 'BEGIN { printf "{\"rate_budget\":100,\"cost_budget\":5000,\"types\":["
        for (i = 1; i <= n; i++) printf "%s{\"cost\":%d,\"value\":%d,\"weight\":1}", (i == 1 ? "" : ","), i, i * 7 % 100 + 1
        print "]}" }' >"$tmp/in"
    run solve "$tmp/in"
}
many 256
expect '256 types' 0
many 257
expect '257 types' 2 ':1:' 'types has more than 256 entries; 1 to 256 are allowed'

# What is not JSON.
refuses '' ':1:1' 'there is no JSON here'
refuses '{"types":[' ':1:11'
refuses '{\n  "types": [{"cost":1,}]}' ':2:23' 'types[0]: '
refuses '[]' ':1:1' 'the workload is an array; it must be an object'
refuses '{"types":[{"cost":1,"value":1,"weight":1}],"rate_budget":1,"cost_budget":1} x' ':1:78'

# What is not known, comes twice, or is missing.
b='"rate_budget":1,"cost_budget":1'
t='{"cost":1,"value":1,"weight":1}'
refuses "{\"typs\":[$t],$b}" ':1:9' 'typs is not known; there are types, rate_budget, cost_budget, conc_budget and arrivals'
refuses "{\"types\":[$t,{\"wieght\":1}],$b}" ':1:53' 'types[1].wieght is not known; there are cost, value, weight and hold'
refuses "{\"types\":[$t,{\"cost\":1,\"cost\":2}],$b}" ':1:53' 'types[1]: the key "cost" comes twice'
refuses "{\"types\":[$t],$b,\"rate_budget\":2}" ':1:76' 'the key "rate_budget" comes twice'
refuses "{$b}" ':1:1' 'types is missing'
refuses "{\"types\":[$t],\"rate_budget\":1}" ':1:1' 'cost_budget is missing'
refuses "{\"types\":[{\"cost\":1,\"value\":1}],$b}" ':1:11' 'types[0].weight is missing'

# What is of another kind.
refuses "{\"types\":{},$b}" ':1:10' 'types is an object; it must be an array'
refuses "{\"types\":[$t,3],$b}" ':1:43' 'types[1] is '  'it must be an object'
refuses "{\"types\":[{\"cost\":\"1\",\"value\":1,\"weight\":1}],$b}" ':1:19' 'types[0].cost is a string; it must be a number'
refuses "{\"types\":[{\"cost\":null,\"value\":1,\"weight\":1}],$b}" ':1:19' 'types[0].cost is null; it must be a number'
refuses "{\"types\":[$t],\"rate_budget\":1,\"cost_budget\":1,\"conc_budget\":[]}" ':1:90' 'conc_budget is an array; it must be a number, or null'
refuses "{\"types\":[{\"cost\":1e999,\"value\":1,\"weight\":1}],$b}" ':1:19' 'types[0].cost is a number out of range'

# What is no JSON is named all the same.
refuses "{\"types\":[{\"cost\":NaN,\"value\":1,\"weight\":1}],$b}" ':1:19' 'types[0].cost: a value is missing'
refuses "{\"types\":[$t,{\"cost\":1,\"value\":-Infinity}],$b}" ':1:61' 'types[1].value: not a number'
refuses "{\"types\":[$t],\"rate_budget\":NaN,\"cost_budget\":1}" ':1:58' 'rate_budget: a value is missing'
refuses "{\"types\":NaN,$b}" ':1:10' 'a value is missing'

# What is out of range.
refuses "{\"types\":[{\"cost\":-1,\"value\":1,\"weight\":1}],$b}" ':1:19' 'types[0].cost is -1; it must be 0 or more'
refuses "{\"types\":[{\"cost\":1,\"value\":1,\"weight\":1,\"hold\":-1}],$b}" ':1:49' 'types[0].hold is -1; it must be 0 or more, or null'
refuses "{\"types\":[{\"cost\":1,\"value\":1e30,\"weight\":1}],$b}" '' 'types[0].value is 1e+30; it must be 0, or a number from 1e-15 to 1e18'
refuses "{\"types\":[$t],\"rate_budget\":0,\"cost_budget\":1}" ':1:58' 'rate_budget is 0; it must be above 0'
refuses "{\"types\":[$t],$b,\"conc_budget\":0}" ':1:90' 'conc_budget is 0; it must be above 0, or null'
refuses "{\"types\":[$t],$b,\"arrivals\":-3}" ':1:87' 'arrivals is -3; it must be above 0, or null'
refuses "{\"types\":[],$b}" '' 'types has 0 entries; 1 to 256 are allowed'
refuses "{\"types\":[$t],$b,\"conc_budget\":5}" '' 'types[0].hold is missing'
refuses "{\"types\":[{\"cost\":1,\"value\":1,\"weight\":1,\"hold\":2}],$b}" '' 'types[0].hold is 2, but there is no conc_budget'
refuses "{\"types\":[{\"cost\":1,\"value\":1,\"weight\":0}],$b,\"arrivals\":3}" '' 'all weights are 0'

# The command line, and files that cannot be read.
run solve a b
expect 'two files' 2 "'b' is a second one"
run solve --fast
expect 'an option that is none' 2 '--fast'
run solve "$tmp/none"
expect 'a file that is not there' 2 "$tmp/none: No such file or directory"
run solve "$tmp"
expect 'a folder' 2 "$tmp: Is a directory"
head -c 1100000 /dev/zero | tr '\0' ' ' >"$tmp/in"
run solve "$tmp/in"
expect 'a file that is too long' 2 'longer than 1048576 bytes'

# The solution is the same whoever compiled it.
for other in "${TOLLGATE_O0:-}" "${TOLLGATE_O3:-}" "${TOLLGATE_CLANG_O0:-}" "${TOLLGATE_CLANG_O3:-}" \
    "${TOLLGATE_SHIP:-}" ${TOLLGATE_X86_64:-}; do
    if [ -z "$other" ]; then
        skip 'the same bytes' 'there is no such build'
        continue
    fi
    many 256
    if "$other" solve "$tmp/in" 2>/dev/null | cmp -s - "$tmp/out"; then
        ok "the same bytes by $other"
    else
        not_ok "the same bytes by $other"
    fi
done
finish
