#!/bin/sh
# docs_links.sh - every link in the documentation leads somewhere, every page can be reached from
# README.md, every file, function and make target that a page names exists, and docs/design.md has every
# room of the tree.
#
# Run from the top of the tree.
set -u
. "$(dirname "$0")/../lib/tap"

find docs -name '*.md' | sort >"$tmp/docs"
{ printf '%s\n' README.md CONTRIBUTING.md CHANGELOG.md && cat "$tmp/docs"; } >"$tmp/pages"
check 'there are pages' test "$(wc -l <"$tmp/pages")" -ge 40

# ---- Links ----

# Headings become anchors as GitHub makes them; `page#anchor`, and the page itself.
while read -r page; do
    echo "$page"
    awk -v page="$page" '
        /^ *```/ { code = !code; next }
        !code && /^##* / {
            sub(/^##* /, ""); $0 = tolower($0)
            gsub(/[^a-z0-9 _-]/, ""); gsub(/ /, "-")
            print page "#" $0 (seen[$0]++ ? "-" seen[$0] - 1 : "")
        }' "$page"
done <"$tmp/pages" >"$tmp/anchors"

# "page target" of each link, the target as a path from the top.
while read -r page; do
    awk '/^ *```/ { code = !code; next } !code' "$page" | sed 's/`[^`]*`//g' |
        grep -o '](\([^)]*\))' | sed 's/^](//; s/)$//' | grep -v '^https\?:' |
        while read -r target; do
            case $target in
            '#'*) target=$page$target ;;
            *) target=$(dirname "$page")/$target ;;
            esac
            # docs/../x is x, and ./x is x.
            printf '%s %s\n' "$page" "$target" |
                sed -e ':a' -e 's, \./, ,' -e 's,[^ /]*/\.\./,,' -e ta
        done
done <"$tmp/pages" >"$tmp/links"
check 'there are links' test "$(wc -l <"$tmp/links")" -ge 150

while read -r page; do
    awk -v page="$page" '$1 == page { print $2 }' "$tmp/links" | sort -u >"$tmp/targets"
    : >"$tmp/broken"
    while read -r target; do
        case $target in
        *#*) grep -q -x -F "$target" "$tmp/anchors" ;;
        *) test -e "$target" ;;
        esac || echo "$target" >>"$tmp/broken"
    done <"$tmp/targets"
    [ -s "$tmp/broken" ] && not_ok "the links of $page" "$(cat "$tmp/broken")" ||
        ok "the links of $page"
done <"$tmp/pages"

# From README.md on, until there is no new page.
echo README.md >"$tmp/reached"
while :; do
    awk 'NR == FNR { reached[$1]; next } $1 in reached { sub(/#.*/, "", $2); print $2 }' \
        "$tmp/reached" "$tmp/links" | cat - "$tmp/reached" | sort -u >"$tmp/more"
    cmp -s "$tmp/more" "$tmp/reached" && break
    mv "$tmp/more" "$tmp/reached"
done
sort "$tmp/pages" | comm -23 - "$tmp/reached" >"$tmp/lost"
[ -s "$tmp/lost" ] && not_ok 'every page can be reached from README.md' "$(cat "$tmp/lost")" ||
    ok 'every page can be reached from README.md'

# ---- The table of documents ----

# "document|tests" of each row; a test that is named has to name the document, but for those of all pages.
sed -n '/^## What checks these documents/,$p' docs/README.md |
    sed -n 's/^| \[\([^]]*\)\]([^)]*) |[^|]*|\([^|]*\)|$/\1|\2/p' >"$tmp/table"
find docs -maxdepth 1 -type f | sed 's,docs/,,' | sort >"$tmp/want"
cut -d '|' -f 1 "$tmp/table" | sort >"$tmp/got"
same_files 'every file of docs/ is in the table of what checks it' "$tmp/want" "$tmp/got"
: >"$tmp/broken"
while IFS='|' read -r document checks; do
    for file in $(echo "$checks" | tr -d '`,'); do
        grep -q -F -e "$document" -e "${document%.md}" "$file" 2>/dev/null || echo "$document: $file" >>"$tmp/broken"
    done
done <"$tmp/table"
[ -s "$tmp/broken" ] && not_ok 'the tests that the table names are about the document' "$(cat "$tmp/broken")" ||
    ok 'the tests that the table names are about the document'

# ---- Names ----

# Words in backquotes, and what is in code blocks for targets of make.
xargs cat <"$tmp/pages" | grep -o '`[^`]*`' | tr -d '`' | sort -u >"$tmp/words"

find include src tests fuzz bench tools examples web proto man -type f | sed 's,.*/,,' |
    sort -u >"$tmp/names"
# A path stands from the top; a bare name is that of some file.
grep -x '[a-zA-Z0-9_./-]*\.\(c\|h\|cc\|lua\|mjs\|sh\|proto\)' "$tmp/words" >"$tmp/files"
grep -x '\(src\|tests\|tools\|bench\|include\|examples\)/[a-zA-Z0-9_./-]*' "$tmp/words" |
    cat - "$tmp/files" | sort -u >"$tmp/all"
check 'files are named' test "$(wc -l <"$tmp/all")" -ge 40
: >"$tmp/broken"
while read -r file; do
    case $file in
    */*) test -e "$file" ;;
    *) grep -q -x -F "$file" "$tmp/names" ;;
    esac || echo "$file" >>"$tmp/broken"
done <"$tmp/all"
[ -s "$tmp/broken" ] && not_ok 'every file that is named exists' "$(cat "$tmp/broken")" ||
    ok 'every file that is named exists'

# Every room has its line in the tree of docs/design.md.
: >"$tmp/broken"
for room in src/*/*/; do
    room=$(basename "$room")
    sed -n '/^## The tree/,/^## Threads/p' docs/design.md | grep -q "\b$room/" ||
        echo "$room" >>"$tmp/broken"
done
[ -s "$tmp/broken" ] && not_ok 'docs/design.md has every room' "$(cat "$tmp/broken")" ||
    ok 'docs/design.md has every room'

# Functions, `like_this()`, and everything that begins tg_.
{
    sed -n 's/^\([a-z_0-9]*\)()$/\1/p' "$tmp/words"
    xargs cat <"$tmp/pages" | grep -o '\btg_[a-z0-9_]*[a-z0-9]\b'
} | sort -u >"$tmp/functions"
check 'functions are named' test "$(wc -l <"$tmp/functions")" -ge 30
grep -r -o -h -w '[a-z_][a-z0-9_]*' include src --include='*.h' --include='*.c' | sort -u >"$tmp/known"
comm -23 "$tmp/functions" "$tmp/known" >"$tmp/broken"
[ -s "$tmp/broken" ] && not_ok 'every function that is named exists' "$(cat "$tmp/broken")" ||
    ok 'every function that is named exists'

xargs cat <"$tmp/pages" | sed -n 's/^ *\(\$ \)\{0,1\}make \([a-z][a-z0-9-]*\)\( .*\)\{0,1\}$/\2/p' >"$tmp/make"
sed -n 's/^make \([a-z][a-z0-9-]*\).*/\1/p' "$tmp/words" >>"$tmp/make"
sort -u "$tmp/make" >"$tmp/targets"
check 'targets of make are named' test "$(wc -l <"$tmp/targets")" -ge 5
: >"$tmp/broken"
while read -r target; do
    grep -q "^$target:" Makefile tools/test.mk tools/ship.mk || echo "$target" >>"$tmp/broken"
done <"$tmp/targets"
[ -s "$tmp/broken" ] && not_ok 'every target of make that is named exists' "$(cat "$tmp/broken")" ||
    ok 'every target of make that is named exists'
finish
