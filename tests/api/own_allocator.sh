#!/bin/sh
# own_allocator.sh - tg_set_allocator(): the cases of own_allocator.c, with the static and the shared library.
#
# BUILD is the folder of the libraries, CC the compiler.
set -u
. "$(dirname "$0")/../lib/tap"

build=${BUILD:-build}
cc=${CC:-cc}
warn='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'

check "it builds with the static library" "$cc" -std=c11 $warn -Iinclude tests/api/own_allocator.c \
    "$build/libtollgate.a" -lm -pthread -o "$tmp/static"
check "it builds with the shared library" "$cc" -std=c11 $warn -Iinclude tests/api/own_allocator.c \
    -L"$build" -ltollgate -o "$tmp/shared"
for name in $("$tmp/static"); do
    check "$name, static" timeout 120 "$tmp/static" "$name"
    check "$name, shared" env LD_LIBRARY_PATH="$build" timeout 120 "$tmp/shared" "$name"
done

# One file knows where memory comes from.
for object in "$build"/obj/src/lib/*/*.o; do
    nm -u "$object" | awk -v file="${object##*/}" '$2 ~ /^(malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|strdup|strndup|asprintf)$/ { print file }'
done | sort -u >"$tmp/callers"
echo allocator.o >"$tmp/only"
same_files "allocator.c alone calls the allocator of libc" "$tmp/only" "$tmp/callers"

finish
