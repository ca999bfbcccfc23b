#!/bin/sh
# key.sh - tollgate key new: a key that is new each time, and the hash that belongs to it.
set -u
. "$(dirname "$0")/../lib/tap"

# Two lines, the key and its entry, in the form that the configuration takes.
run key new --name prod
key=$(sed -n 1p "$tmp/out")
line=$(sed -n 2p "$tmp/out")
if [ "$status" -eq 0 ] && [ ! -s "$tmp/err" ] && [ "$(wc -l <"$tmp/out")" -eq 2 ]; then
    ok 'two lines'
else
    not_ok 'two lines' "status $status" "$(cat "$tmp/out" "$tmp/err")"
fi
if printf '%s\n' "$key" | grep -qE '^tg-[A-Za-z0-9_-]{43}$'; then
    ok 'a key is tg- and 43 characters'
else
    not_ok 'a key is tg- and 43 characters' "$key"
fi
hash=$(printf '%s' "$key" | sha256sum | cut -d ' ' -f 1)
if [ "$line" = "- {name: prod, sha256: \"$hash\"}" ]; then
    ok 'the entry has the SHA-256 of the key'
else
    not_ok 'the entry has the SHA-256 of the key' "$line" "$hash"
fi

{
    echo 'gate: {}'
    echo 'tenants:'
    echo '  - name: team'
    echo '    keys:'
    echo "      $line"
} >"$tmp/config.yaml"
run check -c "$tmp/config.yaml"
if [ "$status" -eq 0 ]; then
    ok 'the configuration takes the entry'
else
    not_ok 'the configuration takes the entry' "$(cat "$tmp/err")"
fi

run key new
if grep -q 'name: default' "$tmp/out" && [ "$(sed -n 1p "$tmp/out")" != "$key" ]; then
    ok 'no key comes twice, and a name is not needed'
else
    not_ok 'no key comes twice, and a name is not needed' "$(cat "$tmp/out")"
fi

run key
expect 'nothing to do' 2 "'new'"
run key old
expect 'something else to do' 2 "'new'"
run key new more
expect 'too much' 2 "'new'"
for name in '' '1st' 'a b' 'a}' '-x'; do
    run key new "--name=$name"
    expect "the name '$name'" 2 'letters'
done
finish
