#!/bin/sh
# link.sh - the headers compile alone as C11 and as C++17, and programs in both link and run,
# against the static and the shared library.
#
# BUILD is the folder of the libraries, CC and CXX are the compilers.
set -u
. "$(dirname "$0")/../lib/tap"

build=${BUILD:-build}
cc=${CC:-cc}
cxx=${CXX:-c++}
warn='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'

check "the headers are C11" "$cc" -std=c11 $warn -Iinclude -fsyntax-only tests/api/header_only.c
check "the headers are C++17" \
    "$cxx" -std=c++17 $warn -Iinclude -fsyntax-only -x c++ tests/api/header_only.c

# builds NAME COMPILER ARGUMENTS...: what it makes must run too.
builds() {
    name=$1
    shift
    rm -f "$tmp/program"
    check "$name: links" "$@" -o "$tmp/program"
    check "$name: runs" env LD_LIBRARY_PATH="$library_path" "$tmp/program"
}

library_path=
builds "C with the static library" \
    "$cc" -std=c11 $warn -Iinclude tests/api/embed_c.c "$build/libtollgate.a" -lm -pthread
builds "C++ with the static library" \
    "$cxx" -std=c++17 $warn -Iinclude tests/api/embed_cxx.cc "$build/libtollgate.a" -lm -pthread

library_path=$build
builds "C with the shared library" \
    "$cc" -std=c11 $warn -Iinclude tests/api/embed_c.c -L"$build" -ltollgate
builds "C++ with the shared library" \
    "$cxx" -std=c++17 $warn -Iinclude tests/api/embed_cxx.cc -L"$build" -ltollgate

finish
