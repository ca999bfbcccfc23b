#!/bin/sh
# many_tenants.sh - ten thousand tenants, in two hundred files and in ten thousand: all are read, and
# what is wrong with the last of them is said. How long that takes is `make bench`'s to say.
#
# TOLLGATE is the program.
set -u
. "$(dirname "$0")/../lib/tap"

case $TOLLGATE in
/*) tollgate=$TOLLGATE ;;
*) tollgate=$PWD/$TOLLGATE ;;
esac

# make_tenants FOLDER TENANTS_A_FILE: with keys, patterns, limits, users, budgets; one in ten is the
# parent of the next nine.
make_tenants() {
    mkdir "$tmp/$1"
    awk -v folder="$tmp/$1" -v each="$2" 'BEGIN {
        for (i = 0; i < 10000; i++) {
            file = sprintf("%s/%05d.yaml", folder, i / each)
            if (i % each == 0)
                print "tenants:" >file
            printf "  - name: tenant-%d\n", i >file
            if (i % 10)
                printf "    parent: tenant-%d\n", i - i % 10 >file
            printf "    keys: [{name: prod, sha256: \"%064x\"}, {name: next, sha256: \"%064x\"}]\n", i + 1, i + 10001 >file
            printf "    models: [\"m*\", \"!m%d\"]\n", i % 20 >file
            printf "    limits: [{rpd: 20000}, {models: [\"m1*\"], tpm: 50000, rpm: 20}]\n" >file
            printf "    users: {from: \"header:x-tollgate-user\", each: {rpm: 30}}\n" >file
            printf "    budgets: [{usd: 50, per: day}, {usd: 800, per: month, tz: UTC}]\n" >file
            if (i % each == each - 1)
                close(file)
        }
    }'
    {
        echo 'gate: {peers: {}}'
        echo 'providers: {p: {base_url: "http://127.0.0.1:1", api: openai}}'
        echo 'models:'
        awk 'BEGIN { for (i = 0; i < 20; i++) printf "  m%d: {provider: p, price: {}}\n", i }'
        echo "include: [\"$1/*.yaml\"]"
    } >"$tmp/$1.yaml"
}

reads_all() {
    (cd "$tmp" && "$tollgate" check -c "$1.yaml" >out 2>err)
    status=$?
    head -n 5 "$tmp/out" "$tmp/err"
    [ "$status" = 0 ] && grep -q '^tenants     10000$' "$tmp/out" && ! [ -s "$tmp/err" ]
}

says() {
    (cd "$tmp" && "$tollgate" check -c "$1.yaml" >out 2>err)
    status=$?
    head -n 5 "$tmp/err"
    [ "$status" = 1 ] && grep -q -F "$2" "$tmp/err"
}

make_tenants few 50
check 'ten thousand tenants in two hundred files' reads_all few
make_tenants many 1
check 'ten thousand tenants, each in a file of its own' reads_all many
echo '    weight: none' >>"$tmp/many/09999.yaml"
check 'what is wrong with the last one is said' says many \
    'many/09999.yaml:9:13: tenants[0].weight is "none"'
printf '  - {name: again, keys: [{sha256: "%064x"}]}\n' 1 >>"$tmp/few/00199.yaml"
check 'one key of two tenants is found among twenty thousand' says few \
    'few/00199.yaml:347:35: the tenant "tenant-0" has the same key; a key is allowed once'
finish
