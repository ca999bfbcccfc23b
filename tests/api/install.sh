#!/bin/sh
# install.sh - `make install` puts everything where a user and pkg-config find it.
set -u
. "$(dirname "$0")/../lib/tap"

cc=${CC:-cc}
root=$tmp/root
at=$root/opt/tollgate

check "make install" make -s install DESTDIR="$root" PREFIX=/opt/tollgate
check "the program runs" "$at/bin/tollgate" --version

# The sysroot stands for DESTDIR, which the files themselves must not know.
PKG_CONFIG_PATH=$at/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
check "DESTDIR is in no installed text" sh -c '! grep -rqF "$1" "$2"' - "$root" "$PKG_CONFIG_PATH"
version=$(sed -n 's/^#define TG_VERSION "\(.*\)"/\1/p' include/tollgate.h)
check "pkg-config knows the version" test "$(pkg-config --modversion tollgate)" = "$version"
check "a program builds by pkg-config" "$cc" -std=c11 tests/api/embed_c.c \
    $(pkg-config --cflags --libs tollgate) -o "$tmp/embed"
check "and finds the shared library by its soname" \
    env LD_LIBRARY_PATH="$at/lib" "$tmp/embed"
check "a server builds by pkg-config" "$cc" -std=gnu11 examples/server-threads.c \
    $(pkg-config --cflags --libs tollgate-posix) -o "$tmp/server"
check "and finds both shared libraries" sh -c 'LD_LIBRARY_PATH="$1" ldd "$2" | grep -c "=> $1/libtollgate" | grep -qx 2' \
    - "$at/lib" "$tmp/server"
check "pkg-config moves with its prefix" sh -c 'test "$(pkg-config --define-variable=prefix=/elsewhere \
    --variable=libdir tollgate)" = /elsewhere/lib'
for file in LICENSE README.md docs/library.md docs/decisions/README.md examples/embed.c; do
    check "$file is installed" cmp -s "$file" "$at/share/doc/tollgate/$file"
done

# The library alone: its recipe asks for nothing of the program's.
make -n lib install-lib-shipped BUILD="$tmp/none" CXX=no-such-compiler >"$tmp/recipe" 2>&1
check "make lib is planned" grep -q libtollgate-posix.so "$tmp/recipe"
check "make lib needs neither the C++ compiler nor protoc-c" \
    sh -c '! grep -v ^echo "$1" | grep -qE "no-such-compiler|protoc-c|-luv|-lssl|src/(io/(text|net|http|redis|grpc)|server|lab|cli)/"' - "$tmp/recipe"

finish
