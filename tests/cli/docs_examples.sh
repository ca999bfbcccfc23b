#!/bin/sh
# docs_examples.sh - what the documentation shows works: configurations are ones that `check` finds
# good, commands print what stands below them, options exist, and code compiles.
#
# TOLLGATE is the program, BUILD the folder of the libraries, CC the compiler. Run from the top of
# the tree. The scripts in docs/mock.md are run by mock.sh, the SDK example of README.md by
# tests/e2e/readme.mjs.
set -u
. "$(dirname "$0")/../lib/tap"

top=$(pwd)
case $TOLLGATE in /*) ;; *) TOLLGATE=$top/$TOLLGATE ;; esac
cc=${CC:-cc}

# blocks PAGE LANGUAGE PREFIX: each fenced block of that language, in PREFIX<n>.
blocks() {
    awk -v language="$2" -v to="$3" '
        /^```/ { inside = !inside; on = inside && $0 == "```" language; n += on; next }
        on { print >(to n) }' "$1"
}

# ---- Configurations ----

mkdir "$tmp/config"
for page in README.md docs/*.md; do
    name=$(basename "$page" .md)
    case $name in mock | simulator) continue ;; esac
    blocks "$page" yaml "$tmp/config/$name-"
done
# What they name lies beside them: a token, rules of Envoy's rate limit service.
"$TOLLGATE" key new | head -n 1 >"$tmp/config/admin.token"
for config in "$tmp"/config/*-*; do
    grep -q '^domain:' "$config" && mv "$config" "$tmp/config/ratelimit.yaml"
done
check 'there are rules for Envoy' test -e "$tmp/config/ratelimit.yaml"
# The walk through a cluster in docs/distributed.md writes a whole file.
sed -n "/^cat > .*<<'END'\$/,/^END\$/p" docs/distributed.md | sed '1d; $d' |
    sed "s/the hash/$("$TOLLGATE" key new | sed -n 's/.*sha256: "\([0-9a-f]*\)".*/\1/p')/" \
        >"$tmp/config/distributed-cluster"
check 'there are configurations' test "$(ls "$tmp/config" | wc -l)" -ge 9
# Whatever variable they name is set.
for name in $(sed -n 's/\${\([A-Z_0-9]*\)}/\n=\1\n/gp' "$tmp"/config/*-* | sed -n 's/^=//p' | sort -u); do
    eval "export $name=x"
done
export PORT=8080 PROBE=8081
openssl genrsa 2048 2>"$tmp/err" >"$tmp/service.pem"
awk 'BEGIN { printf "{\"type\":\"service_account\",\"client_email\":\"x@example.com\",\"token_uri\":\"https://oauth.example/token\",\"private_key\":\"" }
    { printf "%s\\n", $0 } END { print "\"}" }' "$tmp/service.pem" >"$tmp/config/service-account.json"
# Files with certificates are there, too; what is in them only serve reads.
for file in admin.pem admin.key operators.pem; do cp "$tmp/service.pem" "$tmp/config/$file"; done
for config in "$tmp"/config/*-*; do
    case $config in *.json) continue ;; esac
    "$TOLLGATE" check -c "$config" >"$tmp/out" 2>"$tmp/err"
    status=$?
    # Documents do not grow old with the catalogue.
    sed -i '/takes its price from the catalogue builtin/d' "$tmp/err"
    if [ $status -eq 0 ] && [ ! -s "$tmp/err" ]; then
        ok "the configuration $(basename "$config")"
    else
        not_ok "the configuration $(basename "$config")" "$(cat "$tmp/err" "$config")"
    fi
done

# Those in examples/ are checked by check.sh and check_docs.sh; this one is Envoy's neighbour.
check 'examples/envoy/tollgate.yaml' sh -c '
    said=$("$1" check -c examples/envoy/tollgate.yaml 2>&1) || { echo "$said"; exit 1; }
    ! echo "$said" | grep warning' - "$TOLLGATE"

# ---- Commands and what they print ----

# transcript FILE NAME: runs each "$ command" of the file, and what it prints has the lines below it,
# in runs that `...` separates. A command that leaves something out (...) is not run.
transcript() {
    awk -v to="$tmp/command" '
        /^\$ / { n++; more = 1; sub(/^\$ /, "") }
        n == 0 { next }
        more { print >(to n ".sh"); if ($0 !~ /[\\|]$/) more = 0; next }
        { print >(to n ".want") }' "$1"
    for command in "$tmp"/command*.sh; do
        [ -e "$command" ] || break
        shown=$(head -n 1 "$command")
        case $shown in *'...'*) rm -f "${command%.sh}"*; continue ;; esac
        (cd "$tmp/files" && PATH=$tmp/bin:$PATH sh "$command") >"$tmp/got" 2>"$tmp/err"
        status=$?
        # Every run of lines is there, in this order.
        if [ $status -eq 0 ] && awk -v want="${command%.sh}.want" '
            BEGIN { while ((getline line < want) > 0) lines[++n] = line; at = 1
                    while (n > 0 && lines[n] == "") n-- }
            { got[NR] = $0 }
            END {
                for (i = 1; i <= n; i = last + 1) {
                    for (last = i; last <= n && lines[last] != "..."; last++) ;
                    found = last == i
                    for (; !found && at <= NR; at++) {
                        for (k = i; k < last && got[at + k - i] == lines[k]; k++) ;
                        found = k == last
                    }
                    if (!found) { print "not there: " lines[i]; exit 1 }
                }
            }' "$tmp/got" >"$tmp/why"; then
            ok "$2: $shown"
        else
            not_ok "$2: $shown" "status $status" "$(cat "$tmp/why" "$tmp/err" "$tmp/got")"
        fi
        rm -f "${command%.sh}"*
    done
}
mkdir "$tmp/bin" "$tmp/files"
ln -s "$TOLLGATE" "$tmp/bin/tollgate"

sed -n 's/^    //p' docs/limiters.md >"$tmp/limiters"
transcript "$tmp/limiters" limiters.md

# The files of the simulator's tour: each begins with a comment that has its name.
blocks docs/simulator.md yaml "$tmp/tour"
cat "$tmp"/tour* | awk -v to="$tmp/files/" '
    /^# [a-z]*\.yaml/ { file = to $2; sub(/:$/, "", file) }
    { print >file }'
check 'there are five files in the tour' test "$(ls "$tmp/files" | wc -l)" -eq 5
blocks docs/simulator.md '' "$tmp/blocks"
cat "$tmp"/blocks* >"$tmp/simulator"
transcript "$tmp/simulator" simulator.md
same_files 'simulator.svg is what the command draws' docs/simulator.svg "$tmp/files/gate.svg"

# ---- Options ----

# "command option" of every command line that a page shows, in one piece.
cat README.md CONTRIBUTING.md docs/*.md | sed -e ':a' -e '/\\$/N' -e 's/\\\n//' -e ta |
    grep -o 'tollgate [a-z][a-z]* [^`|#]*' | awk '
    $2 ~ /^(serve|check|key|spend|replay|sim|solve|regret|mock|top|bench)$/ {
        for (i = 3; i <= NF; i++)
            if (match($i, /^\[?--[a-z0-9-]*[a-z0-9]/)) {
                option = substr($i, RSTART, RLENGTH); sub(/^\[/, "", option); print $2, option
            } }' | sort -u >"$tmp/options"
check 'options are shown' test "$(wc -l <"$tmp/options")" -ge 20
: >"$tmp/unknown"
while read -r command option; do
    "$TOLLGATE" help "$command" | grep -q -e "$option\b" || echo "$command $option" >>"$tmp/unknown"
done <"$tmp/options"
[ -s "$tmp/unknown" ] && not_ok 'every option exists' "$(cat "$tmp/unknown")" ||
    ok 'every option exists'

# ---- Code ----

blocks README.md c "$tmp/readme.c"
{
    sed -n '/^#include/p' "$tmp/readme.c1"
    echo 'uint64_t random_secret(void); void serve(void); int example(tg_ms now_ms);'
    echo 'int example(tg_ms now_ms) {'
    sed '/^#include/d' "$tmp/readme.c1"
    echo 'return 0; }'
} >"$tmp/readme.c"
check 'the C of README.md compiles' "$cc" -std=gnu11 -Wall -Wextra -Werror -Iinclude \
    -c "$tmp/readme.c" -o "$tmp/readme.o"

if command -v python3 >/dev/null; then
    for page in README.md docs/gateway.md; do
        blocks "$page" python "$tmp/python"
        check "the Python of $page is Python" python3 -c '
import ast, sys
ast.parse(open(sys.argv[1]).read())' "$tmp/python1"
    done
else
    skip 'the Python is Python' 'no python3 here'
fi
finish
