#!/bin/sh
# symbols.sh - the shared libraries export what their headers document, with versions, and need no more
# than they say.
#
# BUILD is the folder of the libraries.
set -u
. "$(dirname "$0")/../lib/tap"
export LC_ALL=C

build=${BUILD:-build}
minor=$(sed -n 's/^#define TG_VERSION_MINOR //p' include/tollgate.h)
major=$(sed -n 's/^#define TG_VERSION_MAJOR //p' include/tollgate.h)

# exports LIBRARY LIST HEADER VERSION-SET OTHERS: OTHERS are libraries that it may need besides.
exports() {
    library=$build/$1.so
    grep -v '^#' "tests/api/$2" >"$tmp/listed"
    nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$tmp/versioned"
    sed 's/@.*//' "$tmp/versioned" >"$tmp/exported"
    same_files "$1: the exported symbols are those of $2" "$tmp/listed" "$tmp/exported"
    check "$1: each has a version of this soname or before it" \
        test "$(grep -c "@@$4_$major\.[0-9]*$" "$tmp/versioned")" = "$(wc -l <"$tmp/listed")"

    # The name before the first parenthesis of every declaration that begins with TG_API.
    awk '/^TG_API/ { text = "" ; open = 1 }
         open { text = text " " $0 }
         open && /;/ { sub(/\(.*/, "", text); n = split(text, words, /[ *]+/); print words[n]; open = 0 }
        ' "include/$3" | sort >"$tmp/declared"
    same_files "$1: the header declares each of them" "$tmp/listed" "$tmp/declared"

    # Sanitizers and C++ would show here too.
    readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE "^(libc|libm|libpthread$5)\.so\.|^ld-linux" >"$tmp/foreign"
    same_files "$1 needs libc, libm and pthreads alone${5:+, and$5}" /dev/null "$tmp/foreign"

    soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    check "$1: the soname carries major and minor" test "$soname" = "$1.so.$major.$minor"
}
exports libtollgate symbols.txt tollgate.h TOLLGATE ''
exports libtollgate-posix symbols_posix.txt tollgate_posix.h TOLLGATE_POSIX '|libtollgate'

# No I/O, no clock, no chance: not by any way a lint of the source could overlook.
nm -D --undefined-only "$build/libtollgate.so" | awk '{ sub(/@.*/, "", $2); print $2 }' |
    grep -xE '(clock|time|gettimeofday|clock_.*|timespec_get|.*sleep|s?rand.*|[de]rand48|getrandom|arc4random.*|_*[vf]*printf(_chk)?|_*vfprintf(_chk)?|f?puts|putchar|f?putc|fwrite|fopen(64)?|open(64)?|read|write|perror|std(in|out|err)|getenv|pthread_create|exit|_exit)' \
        >"$tmp/impure"
same_files "it calls nothing that prints, sleeps, draws or tells time" /dev/null "$tmp/impure"

# Debug information and asserts name files relative to the tree.
for binary in "$build"/libtollgate*.a "$build"/libtollgate*.so "$TOLLGATE"; do
    if grep -qaF "$PWD" "$binary"; then
        not_ok "$binary does not contain the folder it was built in" "$PWD"
    else
        ok "$binary does not contain the folder it was built in"
    fi
done

finish
