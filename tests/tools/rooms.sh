#!/bin/sh
# rooms.sh - tools/rooms names calls against the order and knots, and is content with a tree in order.
set -u
. "$(dirname "$0")/../lib/tap"

cc=${CC:-cc}
rooms=$PWD/tools/rooms
tree=$tmp/tree

# file PATH TEXT: a source of the tree; a .c file is compiled at once.
file() {
    mkdir -p "$tree/$(dirname "$1")"
    printf '%s\n' "$2" >"$tree/$1"
    case $1 in
    *.c)
        mkdir -p "$tree/build/obj/$(dirname "$1")"
        "$cc" -std=c11 -w -I"$tree/src" -c -o "$tree/build/obj/${1%.c}.o" "$tree/$1"
        ;;
    esac
}

# begin: a tree of three rooms in order, two of them equals.
begin() {
    rm -rf "$tree"
    mkdir -p "$tree/bench" "$tree/tools"
    printf "ranks='low:0\nleft:1 right:1'\n" >"$tree/tools/lint-tree"
    file src/low/bottom.h 'static inline int bottom_twice(int x)
{
    return 2 * x;
}
int bottom(void);'
    file src/low/bottom.c '#include "low/bottom.h"
#include <assert.h>
int bottom(void)
{
    assert(sizeof(int) > 1); /* assert(this is a comment) */
    return bottom_twice(1);
}'
    file src/left/left.c 'int bottom(void);
int left(void)
{
    return bottom();
}'
    file src/right/right.c 'int right(void)
{
    return 2;
}'
}

# judge NAME STATUS WORDS...
judge() {
    name=$1 wanted=$2
    shift 2
    "$rooms" "$tree" >"$tmp/out" 2>"$tmp/err"
    got=$?
    if [ $got -ne "$wanted" ]; then
        not_ok "$name" "status $got instead of $wanted" "$(cat "$tmp/out" "$tmp/err")"
        return
    fi
    for words; do
        if ! cat "$tmp/out" "$tmp/err" | tr -s ' ' | grep -qF -e "$words"; then
            not_ok "$name" "nothing says: $words" "$(cat "$tmp/out" "$tmp/err")"
            return
        fi
    done
    ok "$name"
}

begin
# room rank files lines modules includes calls largest asserts /kloc
judge 'a tree in order is fine' 0 'low 0 2 12 1 0 0 1 1 83.3' 'left 1 1 5 1 0 1 1 0 0.0' 'all 4 '

file src/low/deep.c 'int left(void);
int deep(void)
{
    return left();
}'
judge 'a call upward' 1 'up: low/deep -> left/left: left' '1 calls against the order'

begin
file src/left/other.c 'int right(void);
int other(void)
{
    return right();
}'
judge 'a call to an equal' 1 'sideways: left/other -> right/right: right'

begin
file src/right/right.h 'static inline int right_half(int x)
{
    return x / 2;
}'
file src/low/deep.c '#include "right/right.h"
int deep(int x)
{
    return right_half(x);
}'
judge 'a call of an inline function upward' 1 'up: low/deep -> right/right: right_half'

begin
file src/low/deep.c 'static int right_half(int x)
{
    return x;
}
int deep(int x)
{
    return right_half(x);
}'
file src/right/right.h 'static inline int right_half(int x)
{
    return x / 2;
}'
judge 'a static function of the same name is its own' 0

begin
file src/low/deep.c 'int (*deep_hook)(void);
int deep(void)
{
    return deep_hook();
}'
judge 'a call through a pointer' 0

# circle N: N modules, each of which calls the next.
circle() {
    begin
    i=0
    while [ $i -lt "$1" ]; do
        next=$(((i + 1) % $1))
        file "src/low/circle$i.c" "int circle$next(void);
int circle$i(void)
{
    return circle$next();
}"
        i=$((i + 1))
    done
}
circle 6
judge 'six modules in a circle' 0 'low 0 8 42 7 0 0 6'
circle 7
judge 'seven are a knot' 1 'a knot of 7 modules:' 'low: circle0 circle1 circle2' '1 knots of more than 6'

begin
file src/new/new.c 'int new_one;'
judge 'a room without a rank' 1 'the room new has no rank'

begin
rm "$tree/build/obj/src/left/left.o"
judge 'an object that is not built' 1 "left.o is missing; run 'make'"

finish
