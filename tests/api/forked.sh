#!/bin/sh
# forked.sh - a child may use its copies of the library's objects: forked.c, with the static and the shared
# library.
#
# BUILD is the folder of the libraries, CC the compiler.
set -u
. "$(dirname "$0")/../lib/tap"

build=${BUILD:-build}
cc=${CC:-cc}
warn='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'

check "it builds with the static library" "$cc" -std=gnu11 $warn -Iinclude tests/api/forked.c \
    "$build/libtollgate.a" -lm -pthread -o "$tmp/static"
check "it builds with the shared library" "$cc" -std=gnu11 $warn -Iinclude tests/api/forked.c \
    -L"$build" -ltollgate -o "$tmp/shared"
check "parent and child, static" timeout 20 "$tmp/static"
check "parent and child, shared" env LD_LIBRARY_PATH="$build" timeout 20 "$tmp/shared"

finish
