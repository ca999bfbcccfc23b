#!/bin/sh
# symbols.sh - the shared library exports what the header documents, with versions, and needs no more
# than it says.
#
# BUILD is the folder of the libraries.
set -u
. "$(dirname "$0")/../lib/tap"
export LC_ALL=C

build=${BUILD:-build}
library=$build/libtollgate.so

grep -v '^#' tests/api/symbols.txt >"$tmp/listed"
minor=$(sed -n 's/^#define TG_VERSION_MINOR //p' include/tollgate.h)
major=$(sed -n 's/^#define TG_VERSION_MAJOR //p' include/tollgate.h)
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$tmp/versioned"
sed 's/@.*//' "$tmp/versioned" >"$tmp/exported"
same_files "the exported symbols are those of symbols.txt" "$tmp/listed" "$tmp/exported"
check "each has a version of this soname or before it" \
    test "$(grep -c "@@TOLLGATE_$major\.[0-9]*$" "$tmp/versioned")" = "$(wc -l <"$tmp/listed")"

# The name before the first parenthesis of every declaration that begins with TG_API.
awk '/^TG_API/ { text = "" ; open = 1 }
     open { text = text " " $0 }
     open && /;/ { sub(/\(.*/, "", text); n = split(text, words, /[ *]+/); print words[n]; open = 0 }
    ' include/tollgate.h | sort >"$tmp/declared"
same_files "the header declares each of them" "$tmp/listed" "$tmp/declared"

# Sanitizers and C++ would show here too.
readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^(libc|libm|libpthread)\.so\.|^ld-linux' >"$tmp/foreign"
same_files "it needs libc, libm and pthreads alone" /dev/null "$tmp/foreign"

# No I/O, no clock, no chance: not by any way a lint of the source could overlook.
nm -D --undefined-only "$library" | awk '{ sub(/@.*/, "", $2); print $2 }' |
    grep -xE '(clock|time|gettimeofday|clock_.*|timespec_get|.*sleep|s?rand.*|[de]rand48|getrandom|arc4random.*|_*[vf]*printf(_chk)?|_*vfprintf(_chk)?|f?puts|putchar|f?putc|fwrite|fopen(64)?|open(64)?|read|write|perror|std(in|out|err)|getenv|pthread_create|exit|_exit)' \
        >"$tmp/impure"
same_files "it calls nothing that prints, sleeps, draws or tells time" /dev/null "$tmp/impure"

soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
check "the soname carries major and minor" test "$soname" = "libtollgate.so.$major.$minor"

# Debug information and asserts name files relative to the tree.
for binary in "$build/libtollgate.a" "$library" "$TOLLGATE"; do
    if grep -qaF "$PWD" "$binary"; then
        not_ok "$binary does not contain the folder it was built in" "$PWD"
    else
        ok "$binary does not contain the folder it was built in"
    fi
done

finish
