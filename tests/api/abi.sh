#!/bin/sh
# abi.sh - the libraries still have the ABI of the last release: abidiff compares, and what it may find is
# what the head of tollgate.h allows.
#
#     tests/api/abi.sh          compares
#     tests/api/abi.sh keep     after a release: what there is now becomes what is compared with
#
# The last release is tests/api/abi/*.abi.gz, one file for each library, as abidw writes it. A struct
# that carries its size, or whose size is passed along, may grow at its end; an enum may get more
# members, as long as the others keep their values; functions may be added. Everything else is an error
# for as long as the soname stays the same.
#
# What is kept is made from the header alone: a library of functions that do nothing, with the types
# that the header has. That is all a program can see, and no private struct gets in the way. The same
# way makes headers that are changed on purpose, to see that each is found.
#
# BUILD is the folder of the libraries, CC the compiler.
set -u
. "$(dirname "$0")/../lib/tap"

build=${BUILD:-build}
cc=${CC:-cc}
number() { sed -n "s/^#define TG_VERSION_$1 //p" include/tollgate.h; }
so=$(number MAJOR).$(number MINOR)
kept=$here/abi

header_of() { echo "$1.h" | tr - _; }

# empty_library NAME FOLDER OUT: a library with the ABI of the header in FOLDER.
empty_library() {
    awk -v name="$(header_of "$1")" 'BEGIN { print "#include <" name ">" }
        /^TG_API/ { text = ""; open = 1 }
        open { text = text " " $0 }
        open && /;/ { sub(/;.*/, " { __builtin_trap(); }", text); print text; open = 0 }' \
        "$2/$(header_of "$1")" >"$3.c"
    "$cc" -g -w -shared -fPIC "-I$2" -Iinclude -Wl,-soname,"lib$1.so.$so" \
        -Wl,--version-script="$(map_of "$1")" -o "$3" "$3.c"
}

map_of() {
    case $1 in
    tollgate) echo src/lib/tollgate.map ;;
    tollgate-posix) echo src/io/posix/tollgate_posix.map ;;
    esac
}

# The structs of a header that may grow.
sized() {
    awk '/^struct tg_[a-z_]* \{$/ { name = $2; sized = name ~ /_(stats|metrics)$/ || name == "tg_bid_guard" }
         /^    size_t struct_size;/ { sized = 1 }
         /^};$/ { if (sized) print name; sized = 0 }' "$1"
}

# compatible NAME FOLDER LIBRARY: the library, of the header in FOLDER, can replace the last release. What
# abidiff has found and may not be is printed. 1: it cannot; 2: that is not known.
compatible() {
    gzip -dc "$kept/$1.abi.gz" >"$tmp/kept.abi" || return 2
    sized "$2/$(header_of "$1")" >"$tmp/sized"
    abidiff --leaf-changes-only --no-added-syms "$tmp/kept.abi" "$3" >"$tmp/diff" 2>&1
    [ $(($? & 3)) -eq 0 ] || { # it could not compare
        cat "$tmp/diff"
        return 2
    }
    awk -v sized="$(tr '\n' ' ' <"$tmp/sized")" '
        function bad() { print title; print; wrong++ }
        BEGIN { n = split(sized, list, " "); for (i = 1; i <= n; i++) grows[list[i]] = 1 }
        / summary: / || /^$/ { next }
        /^.struct tg_[a-z_]* at .* changed:$/ { title = $0; old = -1; kind = $2 in grows ? "grows" : "not"; next }
        /^.enum tg_[a-z_]* at .* changed:$/ { title = $0; kind = "enum"; next }
        kind == "grows" && /^  type size changed from/ { old = $5; next }
        kind == "grows" && /^  [0-9]+ data member insertions?:$/ { next }
        kind == "grows" && match($0, /^    .*, at offset [0-9]+ \(in bits\)/) {
            split(substr($0, RSTART, RLENGTH), part, "at offset ")
            if (old < 0 || part[2] + 0 < old) bad()
            next
        }
        kind == "enum" && (/^  type size has/ || /^  [0-9]+ enumerator insertions?:$/) { inserted = 1; next }
        kind == "enum" && inserted && /^    .tg_[a-z_]*::TG_[A-Z_0-9]*. value / { next }
        { kind = ""; bad() }
        END { exit wrong > 0 }' "$tmp/diff"
}

if ! command -v abidiff >/dev/null; then
    skip 'the ABI is that of the last release' 'there is no abidiff'
    finish
fi
if [ "$(uname -m)" != x86_64 ]; then
    skip 'the ABI is that of the last release' 'what is kept is that of x86-64'
    finish
fi

if [ "${1:-}" = keep ]; then
    mkdir -p "$kept"
    for name in tollgate tollgate-posix; do
        empty_library "$name" include "$tmp/now.so" &&
            abidw --no-comp-dir-path --no-corpus-path "$tmp/now.so" | gzip -9n >"$kept/$name.abi.gz"
    done
    exit
fi

# changed NAME LINE: whether the sed script found something to change.
change() {
    mkdir -p "$tmp/changed"
    sed "$2" "include/$1.h" >"$tmp/changed/$1.h"
    ! cmp -s "include/$1.h" "$tmp/changed/$1.h" && empty_library "$1" "$tmp/changed" "$tmp/changed/lib.so"
}

# breaks WHAT LINE, keeps WHAT LINE: a header that is changed so is found, or is none of its business.
breaks() {
    if ! change tollgate "$2"; then
        not_ok "$1" 'the header has no such line, or no longer compiles'
        return
    fi
    compatible tollgate "$tmp/changed" "$tmp/changed/lib.so" >"$tmp/found"
    if [ $? -eq 1 ] && [ -s "$tmp/found" ]; then
        ok "$1"
    else
        not_ok "$1" "$(cat "$tmp/diff")"
    fi
}
keeps() {
    check "$1: the header has such a line" change tollgate "$2"
    check "$1" compatible tollgate "$tmp/changed" "$tmp/changed/lib.so"
}

for name in tollgate tollgate-posix; do
    check "lib$name.so can replace the last release" compatible "$name" include "$build/lib$name.so"
done

keeps 'a struct that carries its size may grow' 's/^    void \*context; \/\* the argument of wake.*/&\n    int later;/'
keeps 'an enum may get another member' 's|^enum tg_outcome {|& TG_OUTCOME_EARLIER = -1,|'
keeps 'a function may be added' 's/^TG_API const char \*tg_version(void);/&\nTG_API int tg_later(void);/'
breaks 'a struct without its size may not grow' 's/^    tg_ms retry_after_ms;/    tg_ms later;\n&/'
breaks 'a member may not come before others' 's/^    tg_ms lease_ttl;  /    int64_t later;\n&/'
breaks 'a member may not change its type' 's/^    bool peek; /    int peek; /'
breaks 'a member may not go' 's/^    void \*waiter; .*//'
breaks 'a value may not move' 's/^enum tg_outcome {/enum tg_outcome { TG_OUTCOME_LATER,/'
breaks 'an argument may not change its type' 's/\(tg_gate_renew(.*tg_ms now, \)tg_ms ttl/\1int ttl/'
breaks 'a function may not go' 's/^TG_API bool tg_usage_absurd(.*//'

finish
