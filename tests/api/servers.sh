#!/bin/sh
# servers.sh - the examples that docs/library.md names for calls that wait: each serves many clients at once through its four slots, and none
# is lost; clients that hang up leave the queue. Then again under a thread sanitizer, with the shared
# libraries as they are installed, which are not built with it: it has nothing to report.
#
# BUILD is the folder of the libraries, CC the compiler.
set -u
. "$(dirname "$0")/../lib/tap"

build=${BUILD:-build}
cc=${CC:-cc}
warn='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
clients=60
running=
trap 'kill $running 2>/dev/null; rm -rf "$tmp"' EXIT

# start PROGRAM...: its address is in $url.
start() {
    : >"$tmp/said" # here: what begins in the background may come to it after the first look
    "$@" >"$tmp/said" 2>"$tmp/complaints" &
    running=$!
    url=
    while [ -z "$url" ] && kill -0 "$running" 2>/dev/null; do
        url=$(sed -n 's/^\(http:.*\)/\1/p' "$tmp/said")
    done
}

# stop: the program ends by itself, and what it said last is in $said.
stop() {
    kill "$running"
    wait "$running"
    ended=$?
    running=
    said=$(tail -n 1 "$tmp/said")
}

# get N [OPTION...]: N requests at once; how many were served.
get() {
    n=$1
    shift
    for i in $(seq "$n"); do
        printf 'url = "%s"\n' "$url"
    done >"$tmp/urls"
    curl -sS --no-progress-meter --parallel --parallel-immediate --parallel-max "$n" "$@" -K "$tmp/urls" >"$tmp/served" 2>"$tmp/curl"
    grep -c served "$tmp/served"
}

for name in threads epoll libuv; do
    libraries='-ltollgate-posix -ltollgate -pthread'
    [ "$name" != libuv ] || libraries="$libraries -luv"
    check "server-$name builds" "$cc" -std=gnu11 $warn -Iinclude "examples/server-$name.c" "-L$build" $libraries \
        -o "$tmp/plain"
    check "server-$name builds with -fsanitize=thread" "$cc" -std=gnu11 $warn -g1 -fsanitize=thread -Iinclude \
        "examples/server-$name.c" "-L$build" $libraries -o "$tmp/tsan"
    for form in plain tsan; do
        start env LD_LIBRARY_PATH="$build" TSAN_OPTIONS=halt_on_error=0:exitcode=66 tools/same-addresses "$tmp/$form"
        check "server-$name, $form, runs" test -n "$url"
        same "server-$name, $form: all are served, four at a time" "$clients" "$(get "$clients")"
        # These do not wait for their turn. The next ones find the queue as it should be.
        get "$clients" --max-time 0.03 >/dev/null
        same "server-$name, $form: and again after some have hung up" "$clients" "$(get "$clients")"
        stop
        same "server-$name, $form, ends well" 0 "$ended"
        check "server-$name, $form: nobody was refused: $said" sh -c 'echo "$1" | grep -q ", refused 0, "' - "$said"
        [ "$name" = threads ] || check "server-$name, $form: nobody is left" \
            sh -c 'echo "$1" | grep -q "in flight 0$"' - "$said"
        same_files "server-$name, $form, complains of nothing" /dev/null "$tmp/complaints"
    done
done

finish
