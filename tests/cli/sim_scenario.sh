#!/bin/sh
# sim_scenario.sh - `tollgate sim --scenario`: its table, the same bytes by every compiler, JSON, a
# picture, and what it says when it is asked wrongly.
set -u
. "$(dirname "$0")/../lib/tap"

# golden PROGRAM FILE: runs whose laws and waits are all stated.
golden() {
    "$1" sim --scenario cold.9,mix2x,PS2x --law fixed:initial=24:wait=0,vegas:initial=20:min=1:wait=0 \
        --seed 11 --seeds 2 >"$2" 2>&1
}

# compare NAME PROGRAM
compare() {
    if [ -z "$2" ]; then
        skip "$1" "there is no such program: make test builds it"
        return
    fi
    golden "$2" "$tmp/other"
    same_files "$1" "$here/golden/scenario.txt" "$tmp/other"
}

compare 'the table as it was' "$TOLLGATE"
compare 'gcc -O0' "${TOLLGATE_O0:-}"
compare 'gcc -O3' "${TOLLGATE_O3:-}"
compare 'clang -O0' "${TOLLGATE_CLANG_O0:-}"
compare 'clang -O3' "${TOLLGATE_CLANG_O3:-}"
compare 'without asserts' "${TOLLGATE_SHIP:-}"

run sim --scenario list
same 'there are 25 scenarios, 9 mixes and the use of limits, with a line each' 35 "$(grep -c '^[^ ]\{2,16\} \{1,\}[a-z0-9A-Z]' "$tmp/out")"

run sim --scenario LLM.7 --law fixed:initial=80,none --seeds 2 --tell-deadline --json --plot "$tmp/run.svg"
check 'JSON has a row for each scenario and law' \
    test "$(grep -o '"scenario":"LLM.7","law":"[a-z:=0-9]*"' "$tmp/out" | wc -l)" -eq 2
check 'JSON says what was told' grep -q '"deadline_told":true' "$tmp/out"
check 'JSON has means and intervals' \
    grep -q '"goodput":{"mean":[0-9.]*,"interval":[0-9.]*,"lowest":[0-9.]*,"highest":[0-9.]*}' "$tmp/out"
check 'the picture is one' grep -q '</svg>' "$tmp/run.svg"
[ -s "$tmp/err" ] && not_ok 'no progress when piped' "$(cat "$tmp/err")" || ok 'no progress when piped'

run sim --scenario fair-equal,fair-weights --seeds 2
check 'a mix of tenants has its shares' grep -q '^  weight 4  *[0-9.]* +- [0-9.]* *[0-9.]* +- ' "$tmp/out"
check 'and the index of fairness' grep -q 'Jain [01].[0-9]* by work, [01].[0-9]* by calls' "$tmp/out"
run sim --scenario fair-long --seeds 1 --law fixed:initial=16:wait=9 --json
check 'mixes as JSON' grep -q '"flows":\[{"flow":"long","admitted":{"mean":[0-9.]*,"interval":null' "$tmp/out"
run sim --scenario limit-use --seeds 1
check 'use of a limit, all used' grep -q '^gcra  *1.00  *0.1  *10000 *9[5-9][0-9.]*\|^gcra  *1.00  *0.1  *10000 *100' "$tmp/out"

# wrong WORDS ARGUMENTS...: status 2 and a message with these words.
wrong() {
    words=$1
    shift
    run sim "$@"
    if [ "$status" -eq 2 ] && grep -qF -e "$words" "$tmp/err" && [ ! -s "$tmp/out" ]; then
        ok "sim $*"
    else
        not_ok "sim $*" "status $status" "$(cat "$tmp/err")"
    fi
}

wrong "there is no scenario 'nope'" --scenario nope
wrong "there is no scenario ''" --scenario 3x,
wrong 'need --scenario' --law vegas
wrong "there is no law 'foo'" --scenario 3x --law vegas,foo
wrong "the law fixed has no 'min'" --scenario 3x --law fixed:min=3
wrong 'initial is 2' --scenario 3x --law vegas:initial=2
wrong '--rate has no effect' --scenario 3x --rate 5
wrong '--deadline has no effect' --scenario LLM.7 --deadline 50
wrong 'takes no other option' --scenario list --json
wrong "--seeds is '0'" --scenario 3x --seeds 0
wrong "--scale-time is '0'" --scenario 3x --scale-time 0
wrong '--scale-time has no effect' --scenario fair --scale-time 2
wrong "unexpected argument 'extra'" --scenario 3x extra
wrong "'3x' is not a mix of tenants" --scenario fair-equal,3x
wrong "there is no scenario 'fair-equal'" --scenario 3x,fair-equal
wrong 'cannot be mixed' --scenario limit-use,fair
wrong '--law has no effect on limit-use' --scenario limit-use --law fixed
wrong '--deadline has no effect on mixes' --scenario fair --deadline 5
wrong '--law takes fixed, not vegas' --scenario fair --law vegas
finish
