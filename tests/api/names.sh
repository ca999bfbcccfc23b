#!/bin/sh
# names.sh - a program may have functions of any name that does not begin with tg_, and link the static
# library.
#
# BUILD is the folder of the libraries, CC the compiler.
set -u
. "$(dirname "$0")/../lib/tap"
export LC_ALL=C

build=${BUILD:-build}
cc=${CC:-cc}

for library in tollgate tollgate-posix; do
    list=symbols${library#tollgate}
    nm -g --defined-only "$build/lib$library.a" | awk 'NF == 3 { print $3 }' | sort -u >"$tmp/global"
    grep -v '^#' "tests/api/$(echo "$list" | tr - _).txt" >"$tmp/listed"
    same_files "the static lib$library exports what the shared one does" "$tmp/listed" "$tmp/global"
done

# Every name of the library's insides, and some that any program may have.
nm -g --defined-only "$build/libparts.a" "$build"/obj/src/io/posix/*.o | awk 'NF == 3 && $3 !~ /^tg_/ { print $3 }' >"$tmp/inside"
common='queue_push queue_init heap_init heap_remove timer_set table_insert table_find window_reset
    window_of law_init key_free key_new problem_say lease_end breaker_begin random_next hash_table_grow
    pool_acquire handles_get bucket_fill'
printf '%s\n' $common | sort -u - "$tmp/inside" >"$tmp/names"
check "there are names to collide with ($(wc -l <"$tmp/inside"))" test "$(wc -l <"$tmp/inside")" -gt 100

{
    echo '#include <stdlib.h>'
    sed 's/.*/void &(void);\nvoid &(void)\n{\n    abort();\n}/' "$tmp/names"
} >"$tmp/own.c"
check "a program with functions of these names links" "$cc" -std=c11 -fno-builtin -Iinclude -o "$tmp/program" \
    "$tmp/own.c" tests/api/embed_c.c -Wl,--whole-archive "$build/libtollgate-posix.a" "$build/libtollgate.a" \
    -Wl,--no-whole-archive \
    -lm -pthread
check "and the library calls its own" "$tmp/program"

finish
