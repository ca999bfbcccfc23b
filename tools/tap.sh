# tap.sh - the few functions a shell test needs to speak TAP. Sourced, not run:
#
#     . tools/tap.sh
#     check "gcra admits a burst" run_it with arguments
#     skip "needs redis" "no redis-server here"
#     finish
#
# $scratch is an empty folder that is gone when the test ends.

tap_number=0
tap_failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# pass NAME, fail NAME [WHY], skip NAME WHY: one result each.
pass() {
    tap_number=$((tap_number + 1))
    echo "ok $tap_number - $1"
}

fail() {
    tap_number=$((tap_number + 1))
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_number - $1"
    [ $# -lt 2 ] || printf '%s\n' "$2" | sed 's/^/# /'
}

skip() {
    tap_number=$((tap_number + 1))
    echo "ok $tap_number - $1 # SKIP $2"
}

# check NAME COMMAND...: passes if the command succeeds; if not, shows what it printed.
check() {
    tap_name=$1
    shift
    if tap_output=$("$@" 2>&1); then
        pass "$tap_name"
    else
        fail "$tap_name" "$* gave status $?
$tap_output"
    fi
}

# same NAME EXPECTED ACTUAL: passes if two files are equal, byte by byte.
same() {
    check "$1" diff -u "$2" "$3"
}

# Prints the plan, which TAP allows at the end, and leaves with the right status.
finish() {
    echo "1..$tap_number"
    [ "$tap_failed" -eq 0 ]
    exit
}
