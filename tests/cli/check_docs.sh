#!/bin/sh
# check_docs.sh - what docs/operations.md and the examples promise: every reason and every alert has
# its place, and every example is one that works.
#
# TOLLGATE is the program.
set -u
. "$(dirname "$0")/../lib/tap"

doc=docs/operations.md

# ---- The runbook ----

# Reasons as the gateway says them, in backquotes in the table.
sed -n 's/^ *X([A-Z_]*, "\([a-z_]*\)").*/\1/p' src/server/dialect/replies.h | sort -u >"$tmp/reasons"
check 'there are reasons' test "$(wc -l <"$tmp/reasons")" -ge 20
while read -r reason; do
    check "what to do about $reason" grep -q "^|.*\`$reason\`.*|.*|.*|\$" "$doc"
done <"$tmp/reasons"

# Alerts name a heading of the document.
cat examples/prometheus/*.rules.yml >"$tmp/rules"
sed -n 's/^ *- alert: *//p' "$tmp/rules" >"$tmp/alerts"
check 'there are alerts' test "$(wc -l <"$tmp/alerts")" -ge 5
while read -r alert; do
    check "a heading for $alert" grep -q "^#* $alert\$" "$doc"
    check "and its runbook leads there" grep -q -F \
        "docs/operations.md#$(echo "$alert" | tr '[:upper:]' '[:lower:]')" "$tmp/rules"
done <"$tmp/alerts"

# Metrics that it names are there.
grep -o -E '\b(tollgate|admission)_[a-z_]+[a-z]' "$doc" | sort -u >"$tmp/metrics"
while read -r metric; do
    check "the metric $metric" grep -q -F "\`$metric\`" docs/metrics.md
done <"$tmp/metrics"

# Every link within the document goes somewhere: a heading in lower case, blanks as hyphens.
sed -n 's/^##* //p' "$doc" | tr '[:upper:]' '[:lower:]' | tr -d '.,' | tr ' ' '-' >"$tmp/anchors"
grep -o '](#[a-z0-9-]*)' "$doc" | sed 's/](#//; s/)//' | sort -u >"$tmp/links"
while read -r link; do
    check "the link to $link" grep -q -x -F "$link" "$tmp/anchors"
done <"$tmp/links"
grep -o '](\.\./[^)#]*\|]([a-z_-]*\.\(md\|yaml\)' "$doc" | sed 's/](//' | sort -u >"$tmp/files"
while read -r file; do
    check "the file $file" test -e "docs/$file"
done <"$tmp/files"

# ---- Examples ----

check 'the reference takes up the tenants beside it' sh -c '
    "$1" check -c examples/reference.yaml >"$2/out" 2>"$2/err"
    grep "^tenants     6$" "$2/out" && ! grep tenants.d "$2/err"' - "$TOLLGATE" "$tmp"

# The files of the ConfigMap: lines that stand deeper than the name of the file.
awk -v to="$tmp" '
    /^---/ { exit }
    /^  [a-z.]*\.yaml: \|$/ { file = to "/" substr($1, 1, length($1) - 1); next }
    /^    / && file { print substr($0, 5) >file; next }
    file { file = "" }' examples/kubernetes/tollgate.yaml
check 'the configuration for Kubernetes is good' sh -c '
    REDIS_PASSWORD=x "$1" check -c "$2/tollgate.yaml" >"$2/out" 2>"$2/err"
    status=$?
    cat "$2/out" "$2/err"
    [ $status = 0 ] && grep "^tenants     1$" "$2/out" && ! grep -v "cannot be read" "$2/err"' \
    - "$TOLLGATE" "$tmp"

if command -v systemd-analyze >/dev/null; then
    sed "s|/usr/local/bin/tollgate|$(command -v true)|; /^Documentation/d" \
        examples/systemd/tollgate.service >"$tmp/tollgate.service"
    # It also warns of units that this machine has.
    check 'systemd understands the unit' sh -c '
        systemd-analyze verify "$1" >"$2/err" 2>&1
        cat "$2/err"
        ! grep tollgate.service "$2/err"' - "$tmp/tollgate.service" "$tmp"
else
    skip 'systemd understands the unit' 'no systemd-analyze here'
fi
finish
