#!/bin/sh
# examples.sh - every example builds without a warning, as its head says, and runs.
#
# BUILD is the folder of the libraries, CC the compiler.
set -u
. "$(dirname "$0")/../lib/tap"

build=${BUILD:-build}
cc=${CC:-cc}
warn='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'

# Servers run until they are told to stop: tests/api/servers.sh.
for example in $(ls examples/*.c | grep -v /server-); do
    rm -f "$tmp/program"
    # gnu11: what a reader's compiler takes when nothing is said, C11 with POSIX.
    check "$example builds" "$cc" -std=gnu11 $warn -Iinclude "$example" "$build/libtollgate.a" \
        -lm -pthread -o "$tmp/program"
    check "$example runs" "$tmp/program"
done

# A promise of its head: what it takes to protect a server fits on a screen.
lines=$(grep -vcE '^$|^ *(/\*|\*)' examples/embed.c)
check "examples/embed.c has fewer than 40 lines of code ($lines)" test "$lines" -lt 40

finish
