#!/bin/sh
# docs_providers.sh - every configuration of docs/providers.md is one that `check` accepts, and every
# preset has a section there.
#
# TOLLGATE is the program.
set -u
. "$(dirname "$0")/../lib/tap"

doc=docs/providers.md

awk -v to="$tmp" '
    /^```yaml$/ { file = sprintf("%s/%02d.yaml", to, ++n); next }
    /^```$/ { file = "" }
    file { print >file }' "$doc"
check 'there are configurations' test "$(ls "$tmp" | wc -l)" -ge 15

# Secrets come from variables and files that are not here; all else has to be right.
check_block() {
    {
        cat "$1"
        printf 'listen: {gateway: "127.0.0.1:0"}\nledger: {path: ":memory:"}\n'
        printf 'tenants: [{name: t, budgets: [{usd: 100000, per: day}], keys: [{name: k, sha256: "%s"}]}]\n' \
            fd61a03af4f77d870fc21e05e7e80678095c92d808cfb3b5c279ee04c74aca13
    } >"$tmp/c"
    "$TOLLGATE" check -c "$tmp/c" >"$tmp/out" 2>"$tmp/err"
    status=$?
    cat "$tmp/err"
    [ $status = 0 ] && ! grep -v 'is not set\|cannot be read' "$tmp/err"
}
for block in "$tmp"/*.yaml; do
    check "configuration $(basename "$block" .yaml): $(sed -n 2p "$block" | cut -c1-40)" \
        check_block "$block"
done

sed -n 's/^| `providers.NAME.preset` | one of \([^`]*\) | .*/\1/p' docs/config.md |
    tr '|\\' '\n\n' | tr -d ' ' | grep . >"$tmp/presets"
check 'there are presets' test "$(wc -l <"$tmp/presets")" -ge 15
while read -r preset; do
    [ "$preset" = none ] && continue
    check "the preset $preset has a section" grep -q "^| \[\`$preset\`\](#" "$doc"
    check "and a configuration with it" grep -q "preset: $preset\b" "$doc"
done <"$tmp/presets"
finish
