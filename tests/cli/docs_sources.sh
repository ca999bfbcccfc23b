#!/bin/sh
# docs_sources.sh - docs/coming-from.md: counterparts exist. Keys of the configuration that it names are in
# docs/config.md, which is held against the reader; the defaults it gives are those; metrics are in
# docs/metrics.md, reasons are reasons, strategies and laws are ones that the program takes.
set -u
. "$(dirname "$0")/../lib/tap"

page=docs/coming-from.md

# The keys of docs/config.md, and each without its [] and names.
sed -n 's/^| `\([a-zA-Z_.0-9]*\(\[\]\)*[^`]*\)` |.*/\1/p' docs/config.md | sort -u >"$tmp/keys"
sed 's/\..*//; s/\[\]//' "$tmp/keys" | sort -u >"$tmp/sections"
check 'there are keys' test "$(wc -l <"$tmp/keys")" -ge 200
grep -o '`[^`]*`' "$page" | tr -d '`' | sort -u >"$tmp/words"

# Words with a dot whose first part is a section; `key: value` is about the key.
sed 's/: .*//' "$tmp/words" | grep -x '[a-z_]*\(\[\]\)\{0,1\}\(\.[a-zA-Z_]*\(\[\]\)\{0,1\}\)\{1,\}' >"$tmp/dotted"
: >"$tmp/unknown"
n=0
while read -r key; do
    grep -q -x "$(echo "$key" | sed 's/\..*//; s/\[\]//')" "$tmp/sections" || continue
    n=$((n + 1))
    grep -q -F -x -e "$key" -e "$key[]" "$tmp/keys" || grep -q -F -e "$key." "$tmp/keys" || echo "$key" >>"$tmp/unknown"
done <"$tmp/dotted"
check 'keys are named' test "$n" -ge 20
[ -s "$tmp/unknown" ] && not_ok 'every key of the configuration exists' "$(cat "$tmp/unknown")" ||
    ok 'every key of the configuration exists'

# Rows of the tables of defaults: "| there | its | `key` | default |".
sed -n 's/^|[^|]*|[^|]*| `\([a-z_.A-Z\[]*[]a-z_.A-Z]*\)` | \([0-9][0-9.]*\( m\{0,1\}s\)\{0,1\}\) |$/\1 \2/p' "$page" |
    sed 's/ \(m\{0,1\}s\)$/\1/' >"$tmp/defaults"
check 'defaults are given' test "$(wc -l <"$tmp/defaults")" -ge 10
while read -r key value; do
    got=$(grep -F "| \`$key\` |" docs/config.md | head -n 1 | sed 's/\\|/,/g' | cut -d '|' -f 4 | tr -d ' `')
    if awk -v a="$got" -v b="$value" 'BEGIN { exit !(a == b || (a + 0 == b + 0 && a !~ /[a-z]/ && b !~ /[a-z]/)) }'; then
        ok "the default of $key"
    else
        not_ok "the default of $key" "the page says $value, docs/config.md $got"
    fi
done <"$tmp/defaults"

grep -o '\b\(tollgate\|admission\)_[a-z_]*[a-z]\b' "$page" | sort -u >"$tmp/metrics"
check 'metrics are named' test "$(wc -l <"$tmp/metrics")" -ge 15
: >"$tmp/unknown"
while read -r metric; do
    grep -q -F "\`$metric\`" docs/metrics.md || echo "$metric" >>"$tmp/unknown"
done <"$tmp/metrics"
[ -s "$tmp/unknown" ] && not_ok 'every metric exists' "$(cat "$tmp/unknown")" || ok 'every metric exists'

for reason in $(grep -o '[0-9][0-9][0-9] `[a-z_]*`' "$page" | cut -d '`' -f 2 | sort -u); do
    check "the reason $reason" grep -q "\"$reason\"" src/server/dialect/replies.h
done

for alert in $(grep -o '`Tollgate[A-Za-z]*`' "$page" | tr -d '`'); do
    check "the alert $alert" grep -q "alert: $alert\$" examples/prometheus/tollgate.rules.yml
done

# A limiter as the page writes it, with a number for each setting.
for limiter in gcra:limit=5,period=1000,burst=5 token_bucket:capacity=5,refill=1 \
    token_budget:budget=5,window=1000; do
    strategy=${limiter%%:*}
    check "the settings of $strategy" grep -q "strategy: $strategy, $(echo "${limiter#*:}" |
        sed 's/=[0-9]*//g; s/,/, /g')}" "$page"
    check "$strategy takes them" sh -c 'echo "{\"t\":1,\"key\":\"a\"}" | "$1" replay --limiter "$2"' - \
        "$TOLLGATE" "$limiter"
done
finish
