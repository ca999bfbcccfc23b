#!/bin/sh
# grown.sh - a program that was compiled for this header runs with a later library whose structs have
# grown.
#
# The later library is made of this source: copied, with members added to every struct that carries its
# size, or whose size is passed along. It is built by `make lib`, in a tree that has nothing of the
# program, without a C++ compiler.
#
# BUILD is the folder of the libraries, CC the compiler.
set -u
. "$(dirname "$0")/../lib/tap"

build=${BUILD:-build}
cc=${CC:-cc}


# later TREE: a copy of the library's source.
later() {
    mkdir -p "$1/src" "$1/tools" &&
        cp -r src/lib "$1/src/" && cp -r include Makefile tollgate.pc.in "$1/" &&
        cp tools/check-tools tools/*.mk "$1/tools/"
}

# build_later TREE
build_later() {
    make -s -C "$1" build/libtollgate.so CC="$cc" CXX=no-such-compiler OPT=-O0 DEBUG=-g1 FORTIFY= \
        >"$tmp/make.log" 2>&1 || {
        cat "$tmp/make.log"
        return 1
    }
}

grown=$tmp/grown
later "$grown"
# A struct ends with the first line "};" after its beginning.
awk '/^struct tg_[a-z_]* \{$/ { name = $2; sized = name ~ /_(stats|metrics)$/ || name == "tg_bid_guard" }
     /^    size_t struct_size;/ { sized = 1 }
     /^};$/ && sized { print "    double grown[5];"; sized = 0; n++ }
     { print }
     END { print n >"/dev/stderr" }' include/tollgate.h >"$grown/include/tollgate.h" 2>"$tmp/count"
check "structs have grown ($(cat "$tmp/count"))" test "$(cat "$tmp/count")" -ge 19
check "the later library is built, of its own source alone" build_later "$grown"

warn='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
# The protector notices whoever writes beyond a struct on the stack.
for program in embed_c misuse everything; do
    check "$program.c builds for this header" "$cc" -std=c11 $warn -Wno-nonnull -O1 -fstack-protector-all \
        -Iinclude "tests/api/$program.c" -L"$build" -ltollgate -o "$tmp/$program"
done
for library in "$build" "$grown/build"; do
    check "embed_c with $library" env LD_LIBRARY_PATH="$library" "$tmp/embed_c"
    check "everything with $library" env LD_LIBRARY_PATH="$library" "$tmp/everything"
    for name in $(LD_LIBRARY_PATH=$build "$tmp/misuse"); do
        check "misuse $name with $library" env LD_LIBRARY_PATH="$library" timeout 20 "$tmp/misuse" "$name"
    done
done

# A program of the later header may be new to its library, as long as it uses nothing new.
check "everything.c builds for the later header" "$cc" -std=c11 -O1 -fstack-protector-all \
    -I"$grown/include" tests/api/everything.c -L"$build" -ltollgate -o "$tmp/newer"
check "and runs with this library" env LD_LIBRARY_PATH="$build" "$tmp/newer"

finish
