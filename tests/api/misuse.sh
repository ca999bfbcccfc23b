#!/bin/sh
# misuse.sh - what embedders get wrong is right all the same, or refused with an error: the cases of
# misuse.c, with the static and the shared library.
#
# BUILD is the folder of the libraries, CC the compiler.
set -u
. "$(dirname "$0")/../lib/tap"

build=${BUILD:-build}
cc=${CC:-cc}
warn='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
# Null is what is tested, and the compiler may know.
quiet='-Wno-nonnull'

check "it builds with the static library" "$cc" -std=c11 $warn $quiet -Iinclude tests/api/misuse.c \
    "$build/libtollgate.a" -lm -pthread -o "$tmp/static"
check "it builds with the shared library" "$cc" -std=c11 $warn $quiet -Iinclude tests/api/misuse.c \
    -L"$build" -ltollgate -o "$tmp/shared"
for name in $("$tmp/static"); do
    check "$name, static" timeout 20 "$tmp/static" "$name"
    check "$name, shared" env LD_LIBRARY_PATH="$build" timeout 20 "$tmp/shared" "$name"
done

finish
