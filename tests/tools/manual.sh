#!/bin/bash
# manual.sh - manual pages and completions that are made from the program say what the program does.
#
# TOLLGATE is the program.
set -u
. "$(dirname "$0")/../lib/tap"

export SOURCE_DATE_EPOCH=1700000000
check 'manual pages are made' tools/man-pages "$TOLLGATE" "$tmp/man"
check 'completions are made' tools/completions "$TOLLGATE" "$tmp/completions"
commands=$("$TOLLGATE" help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p')
check 'there are commands' test "$(echo "$commands" | wc -l)" -ge 12
for command in $commands; do
    check "a page of $command with its usage" grep -q '^tollgate '"$command" "$tmp/man/tollgate-$command.1"
done
if command -v mandoc >/dev/null; then
    check 'mandoc finds nothing wrong with them' mandoc -T lint -W warning man/tollgate.1 "$tmp"/man/*
else
    skip 'mandoc finds nothing wrong with them' 'no mandoc here; make ship-test has it'
fi

# Every key of the configuration is a term of the page.
sed -n 's/^| `\([a-z_A-Z.\[\]*\]*\)` |.*/\1/p' docs/config.md >"$tmp/keys"
check 'there are keys' test "$(wc -l <"$tmp/keys")" -ge 150
sed -n 's/^\\fB\(.*\)\\fR$/\1/p' "$tmp/man/tollgate.yaml.5" | sed 's/\\-/-/g' >"$tmp/terms"
same 'every key of the configuration is in tollgate.yaml(5)' '' "$(grep -v -x -F -f "$tmp/terms" "$tmp/keys")"

# ---- Completion ----

for file in "$tmp"/completions/tollgate.bash; do
    check 'bash can read it' bash -n "$file"
done
# completed WORDS...: what bash offers for the last word.
completed() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _tollgate 2>/dev/null
    echo "${COMPREPLY[*]}"
}
. "$tmp/completions/tollgate.bash"
same 'commands' 'serve spend solve sim' "$(completed tollgate s)"
same 'options' '--takeover' "$(completed tollgate serve --ta)"
same 'choices' 'day' "$(completed tollgate spend --by d)"
same 'words' 'new' "$(completed tollgate key n)"
same 'files' 'docs/config.md' "$(completed tollgate check -c docs/conf)"

# The program knows every option that is offered: it complains of the next one. Some of them write files.
TOLLGATE=$(readlink -f "$TOLLGATE")
cd "$tmp" || exit 1
for command in $commands; do
    [ "$command" != help ] || continue
    wrong=
    for option in $(completed tollgate "$command" -); do
        [ "$option" != --help ] || continue
        mode=
        case " --deadline --law --scale-capacity --scale-time --seeds --tell-deadline " in
        *" $option "*) [ "$command" != sim ] || mode='--scenario all' ;;
        esac
        # shellcheck disable=SC2086 # options and their values
        timeout 5 "$TOLLGATE" "$command" $mode "$option" --no-such-option --no-such-option </dev/null 2>&1 | grep -q "no option $option" &&
            wrong="$wrong $option"
    done
    same "$command takes the options that are offered" '' "$wrong"
done
finish
