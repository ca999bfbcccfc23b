#!/bin/sh
# help.sh - the program says what it is and what it does.
set -u
. "$(dirname "$0")/../lib/tap"

# says NAME WORDS...: the last run was good, all these words are on stdout and nothing on stderr.
says() {
    name=$1
    shift
    if [ "$status" -ne 0 ] || [ -s "$tmp/err" ]; then
        not_ok "$name" "status $status" "$(cat "$tmp/err")"
        return
    fi
    for words; do
        if ! grep -qF -e "$words" "$tmp/out"; then
            not_ok "$name" "nothing of '$words' in:" "$(cat "$tmp/out")"
            return
        fi
    done
    ok "$name"
}

run --version
if [ "$status" -eq 0 ] && [ "$(cat "$tmp/out")" = "tollgate 0.2.0" ]; then
    ok '--version'
else
    not_ok '--version' "$(cat "$tmp/out")"
fi

for how in help --help -h; do
    run $how
    says "$how" 'usage: tollgate COMMAND' '--version' key spend replay solve regret mock bench help
done
run help help
says 'help help' 'usage: tollgate help [COMMAND]'
run help --help
says 'help --help' 'usage: tollgate help [COMMAND]'

# Each command that the list names has a help text, the same by both ways.
run help
for command in $(sed -n 's/^  \([a-z][a-z]*\)  *[a-z].*/\1/p' "$tmp/out"); do
    run help "$command"
    says "help $command" "usage: tollgate $command"
    cp "$tmp/out" "$tmp/by-help"
    for option in --help -h; do
        run "$command" $option
        if [ "$status" -eq 0 ] && cmp -s "$tmp/out" "$tmp/by-help"; then
            ok "$command $option"
        else
            not_ok "$command $option" "$(cat "$tmp/out" "$tmp/err")"
        fi
    done
done

# Every limiter that the help of replay shows is one.
run help replay
specs=$(sed -n 's/^  \([a-z_]*:[a-z=0-9,]*\)$/\1/p' "$tmp/out")
[ "$(echo "$specs" | wc -l)" -eq 6 ] && ok 'six limiters are shown' || not_ok 'six limiters are shown' "$specs"
for spec in $specs; do
    echo '{"t":1000}' >"$tmp/in"
    run replay --limiter "$spec" "$tmp/in"
    says "$spec" '"allowed":true'
done

# Without any argument: the same words, but on stderr, and as an error.
run
if [ ! -s "$tmp/out" ]; then
    expect 'no arguments' 2 'usage: tollgate'
else
    not_ok 'no arguments' 'something on stdout'
fi
finish
