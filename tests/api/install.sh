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

finish
