#!/bin/sh
# docs_attacks.sh - docs/security.md: every attack and every way to a larger bill has its row, and every test
# that a row names is in the tree.
#
# The last column of a row names tests: a file, then the names of tests in it. Run from the top of the tree.
set -u
. "$(dirname "$0")/../lib/tap"

page=docs/security.md

# "table number words" of each numbered row: `bills` between its heading and the next, else `attacks`. A
# word is what stands in backquotes in the last column.
awk '
    /^##/ { table = /^### Sixty ways/ ? "bills" : "attacks" }
    /^\*\*What a gateway cannot meet/ { table = "unmet" }
    /^### By another API/ { table = "translated"; file = "test_call_translate_money.c" }
    table == "translated" && /^\| / && !/^\| move/ {
        split($0, cells, "|")
        n = split(cells[4], words, "`")
        print table "\t" ++moves > rows
        for (i = 2; i <= n; i += 2)
            if (words[i] ~ /\.c$/)
                file = words[i]
            else
                print table "\t" moves "\t" file "\t" words[i] > tests
        file = "test_call_translate_money.c"
    }
    /^\| [0-9]+ \|/ {
        split($0, cells, "|")
        n = split(cells[table == "unmet" ? 4 : 5], words, "`")
        gsub(/ /, "", cells[2])
        print table "\t" cells[2] > rows
        for (i = 2; table != "unmet" && i <= n; i += 2)
            if (words[i] ~ /^[a-z0-9_]+\.(c|mjs)$/)
                file = words[i]
            else
                print table "\t" cells[2] "\t" file "\t" words[i] > tests
    }' rows="$tmp/rows" tests="$tmp/tests" "$page"

seq 21 >"$tmp/want"
awk '$1 == "attacks" { print $2 }' "$tmp/rows" | sort -n >"$tmp/got"
same_files 'every attack has one row' "$tmp/want" "$tmp/got"
seq 60 >"$tmp/want"
awk '$1 == "bills" || $1 == "unmet" { print $2 }' "$tmp/rows" | sort -n -u >"$tmp/got"
same_files 'every way to a larger bill has a row' "$tmp/want" "$tmp/got"
cut -f 1,2 "$tmp/tests" | sort -u >"$tmp/got"
grep -v '^unmet' "$tmp/rows" | sort -u >"$tmp/want"
same_files 'every row names a test' "$tmp/want" "$tmp/got"

# A unit test is one that its program runs; a move of a bill stands beside its number.
find tests -type f \( -name '*.c' -o -name '*.mjs' \) >"$tmp/files"
: >"$tmp/broken"
while IFS='	' read -r table number file name; do
    path=$(grep "/$file\$" "$tmp/files")
    case $file in
    *.c) want="cmocka_unit_test\\(_[a-z_]*\\)\\{0,1\\}($name[,)]" ;;
    bill_moves.mjs) want="^    \\[$number, '$name'," ;;
    *) want=$name ;;
    esac
    [ -n "$path" ] && grep -q -e "$want" "$path" || echo "$table $number: $file: $name" >>"$tmp/broken"
done <"$tmp/tests"
[ -s "$tmp/broken" ] && not_ok 'every test that is named exists' "$(cat "$tmp/broken")" ||
    ok 'every test that is named exists'

# And the other way: every move that is tried is told of.
sed -n "s/^    \\[\\([0-9]*\\), '\\([^']*\\)', .*/\\1	\\2/p" tests/e2e/bill_moves.mjs | sort -u >"$tmp/want"
check 'there are moves' test "$(wc -l <"$tmp/want")" -ge 100
awk -F '\t' '$3 == "bill_moves.mjs" { print $2 "\t" $4 }' "$tmp/tests" | sort -u >"$tmp/got"
same_files 'every move has its place in the table' "$tmp/want" "$tmp/got"
finish
