#!/bin/sh
# deb.sh - the packages in a bare Debian 12, as docs/install.md says: install, call, upgrade under load, purge.
#
# DEBS is the folder with the packages. CHROOT is a tar archive of a bare system; it is made by mmdebstrap
# where it is missing. Needs root; runs in a network of its own, so that the usual addresses are free.
set -u
if [ "${1:-}" != inside ]; then
    debs=${DEBS:-build/deb}
    chroot=${CHROOT:-build/ship-test/debian.tar}
    if [ ! -s "$chroot" ]; then
        mkdir -p "$(dirname "$chroot")"
        # What the package asks of Debian is in it already, so that the test itself needs no network.
        wanted=$(for package in "$debs"/tollgate_*.deb; do dpkg-deb -f "$package" Depends; done |
            tr ',' '\n' | sed 's/^ *//; s/[ (|].*//' | paste -sd ,)
        mmdebstrap --quiet --format=tar --variant=minbase --include="$wanted,man-db" bookworm "$chroot.$$" || exit 1
        mv "$chroot.$$" "$chroot"
    fi
    DEBS=$debs CHROOT=$chroot exec unshare --net --mount --pid --fork --mount-proc "$0" inside
fi
ip link set lo up
TOLLGATE=/bin/true # the program under test is inside
. "$(dirname "$0")/../lib/tap"

root=$tmp/root
mkdir "$root"
tar -xf "$CHROOT" -C "$root" || exit 1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mkdir "$root/debs"
cp "$DEBS"/tollgate_*.deb "$DEBS"/libtollgate*.deb "$DEBS"/tollgate-doc_*.deb "$root/debs/"
rm -f "$root"/debs/*dbgsym*
inside() { chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
as_user() { inside setpriv --reuid tollgate --regid tollgate --clear-groups "$@"; }
cleanup() {
    kill $running 2>/dev/null
    umount -l "$root/proc" "$root"
    rm -rf "$tmp"
}
running=
trap cleanup EXIT

# ---- Install ----

check 'the packages install in a bare system' inside sh -c 'dpkg -i /debs/*.deb'
check 'the program runs' inside tollgate --version
check 'the configuration is good as it is' inside sh -c '
    tollgate check -c /etc/tollgate/tollgate.yaml 2>&1 | tee /tmp/said && ! grep -i warning /tmp/said'
check 'there is a user without a shell' inside sh -c 'getent passwd tollgate | grep -q ":/var/lib/tollgate:/usr/sbin/nologin$"'
check 'nobody else reads the token or the ledger' sh -c '
    [ "$(stat -c "%a %U" "$1/var/lib/tollgate")" = "700 $(stat -c %U "$1/var/lib/tollgate")" ] &&
    [ "$(stat -c %a "$1/etc/tollgate/admin.token")" = 640 ] && [ "$(stat -c %a "$1/etc/tollgate")" = 750 ]' - "$root"
for page in tollgate tollgate-serve tollgate-sim tollgate.yaml; do
    check "there is a manual page $page" test -n "$(ls "$root"/usr/share/man/man*/"$page".* 2>/dev/null)"
done
for command in $(inside tollgate help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    check "there is a manual page of $command" test -e "$root/usr/share/man/man1/tollgate-$command.1.gz"
done
for unit in tollgate@.service tollgate-gateway.socket tollgate-probe.socket; do
    check "there is the unit $unit" test -s "$root/lib/systemd/system/$unit"
done
check 'the sockets are enabled' test -L "$root/etc/systemd/system/sockets.target.wants/tollgate-gateway.socket"

# ---- Start, and a call ----

key=$(inside tollgate key new --name test)
cat >"$root/etc/tollgate/tenants.d/test.yaml" <<END
providers:
  demo: {base_url: "http://127.0.0.1:9099", api: openai, keys: [{name: k1, secret: sk-demo}]}
models:
  demo-small: {provider: demo, price: {input: 0.15, output: 0.60}, max_output_tokens: 4096, context: 128000}
tenants:
  - name: team
    keys:
      $(echo "$key" | sed -n 2p)
    budgets: [{usd: 5, per: day}]
END
key=$(echo "$key" | sed -n 1p)
# Answers take a while, so that some are always on their way.
inside tollgate mock --latency 200ms --tokens 16 --pace 40 >"$tmp/mock" 2>&1 &
running="$running $!"

# serve LOG OPTIONS...: the command of the unit, as its user.
serve() {
    log=$1
    shift
    # No shell stays in between, so that signals reach the gateway.
    (exec chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin setpriv --reuid tollgate --regid tollgate \
        --clear-groups tollgate serve -c /etc/tollgate/tollgate.yaml "$@") >"$log" 2>&1 &
    gateway=$!
    running="$running $gateway"
}
status_of() {
    curl -s --retry 60 --retry-delay 1 --retry-connrefused -o /dev/null -w '%{http_code}' "http://127.0.0.1:8081/$1"
}
# call OUT EXTRA: prints "curl's status, HTTP's status".
call() {
    curl -s -o "$1" -w '%{exitcode} %{http_code}\n' --max-time 60 -H "authorization: Bearer $key" \
        -H 'content-type: application/json' -d "{\"model\":\"demo-small\",\"max_tokens\":16,$2
        \"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}" http://127.0.0.1:8080/v1/chat/completions
}
serve "$tmp/old.log" --takeover
old=$gateway
same 'it starts without systemd and becomes ready' 200 "$(status_of readyz)"
same 'a call is served' '0 200' "$(call "$tmp/reply" '')"
check 'the admin API takes the token that was made' sh -c '
    curl -s --fail -H "authorization: Bearer $(cat "$1/etc/tollgate/admin.token")" http://127.0.0.1:9090/api/v1/snapshot' - "$root"

# ---- Upgrade, with calls in flight ----

# The same program in a package of a higher version.
old_version=$(dpkg-deb -f "$root"/debs/tollgate_*.deb Version)
mkdir "$root/debs/new"
for package in "$root"/debs/*.deb; do
    rm -rf "$tmp/repack"
    dpkg-deb -R "$package" "$tmp/repack"
    sed -i "s/^Version: .*/Version: $old_version+1/; s/(= $old_version)/(= $old_version+1)/g" "$tmp/repack/DEBIAN/control"
    dpkg-deb -Zgzip -z1 -b "$tmp/repack" "$root/debs/new/" >/dev/null
done

# client N: calls one after the other until told to stop, every second one streamed.
client() {
    while [ ! -e "$tmp/stop" ]; do
        call "$tmp/reply.$1" '"stream":true,'
        grep -q '\[DONE\]' "$tmp/reply.$1" || echo 'stream cut'
        call "$tmp/reply.$1" ''
    done >"$tmp/client.$1"
}
for n in 1 2 3 4; do
    client $n &
    clients="${clients:-} $!"
done
calls() { cat "$tmp"/client.* 2>/dev/null | wc -l; }
# at_least N: waits until so many calls have ended since now.
at_least() {
    goal=$(($(calls) + $1))
    for _ in $(seq 600); do
        [ "$(calls)" -lt "$goal" ] || return 0
        sleep 0.1
    done
    return 1
}
check 'calls are made' at_least 8
before=$(calls)
check 'a higher version installs while calls run' inside sh -c 'dpkg -i /debs/new/*.deb'
same 'it is installed' "$old_version+1" "$(inside dpkg-query -W -f '${Version}' tollgate)"
check 'the old process has run through it' kill -0 "$old"
token=$(cat "$root/etc/tollgate/admin.token")
serve "$tmp/new.log" --takeover
new=$gateway
wait_for_takeover() {
    for _ in $(seq 300); do
        grep -q 'serves in the place of' "$tmp/new.log" && return 0
        kill -0 "$new" || return 1
        sleep 0.1
    done
    return 1
}
check 'the new program takes over' wait_for_takeover
check 'calls go on' at_least 16
touch "$tmp/stop"
wait $clients
cat "$tmp"/client.* >"$tmp/calls"
echo "# $(wc -l <"$tmp/calls") calls, $before of them before the upgrade"
same 'no call was lost' '' "$(grep -v '^0 200$' "$tmp/calls")"
same 'the token has stayed' "$token" "$(cat "$root/etc/tollgate/admin.token")"
same 'all spend is in one ledger' "$(($(wc -l <"$tmp/calls") + 1))" \
    "$(as_user tollgate spend -c /etc/tollgate/tollgate.yaml --json | python3 -c '
import json, sys
print(json.load(sys.stdin)["total"]["calls"])')"

# ---- take-over under systemd, with a systemctl that plays it ----

mkdir -p "$root/run/systemd/system" "$root/tmp/fake"
cat >"$root/tmp/fake/systemctl" <<'END'
#!/bin/sh
grep -qx "$2" /tmp/fake/active && echo active || { echo inactive; exit 3; }
END
cat >"$root/tmp/fake/deb-systemd-invoke" <<'END'
#!/bin/sh
echo "$2" >>/tmp/fake/active
echo "$@" >>/tmp/fake/said
END
chmod 755 "$root"/tmp/fake/*
take_over() {
    : >"$root/tmp/fake/said"
    inside env PATH=/tmp/fake:/usr/sbin:/usr/bin:/sbin:/bin /usr/lib/tollgate/take-over "$@"
    cat "$root/tmp/fake/said"
}
: >"$root/tmp/fake/active"
same 'who stopped the gateway is not given one by an upgrade' '' "$(take_over)"
same 'a new installation starts one' 'start tollgate@a.service' "$(take_over --start)"
same 'an upgrade starts another beside it' 'start tollgate@b.service' "$(take_over)"
same 'and a third while both still run' 'start tollgate@c.service' "$(take_over)"
rm -rf "$root/run/systemd/system" "$root/tmp/fake"

# ---- Remove and purge ----

kill "$new"
wait "$new"
same 'it ends in order' 0 $?
# The old one keeps idle connections for a while; here there are none that matter.
kill "$old" 2>/dev/null
wait "$old"
check 'it is removed' inside dpkg -r tollgate
check 'what was spent and configured stays' test -s "$root/var/lib/tollgate/tollgate.db" -a -s "$root/etc/tollgate/tollgate.yaml"
rm "$root/etc/tollgate/tenants.d/test.yaml"
check 'it is purged' inside sh -c 'dpkg -P $(dpkg-query -W -f "\${Package} " "*tollgate*")'
same 'nothing of it is left' '' "$(find "$root/etc" "$root/usr" "$root/var/lib/tollgate" "$root/lib/systemd" \
    -name '*tollgate*' 2>/dev/null)"
finish
