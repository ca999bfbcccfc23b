#!/bin/sh
# image.sh - the OCI image starts as somebody without rights on a root that cannot be written, answers
# its probes, makes a call, and is small, as docs/install.md says.
#
# IMAGE is the folder that tools/image has filled, TOLLGATE a program whose mock plays the provider. Needs
# root and umoci; runs in a network of its own.
set -u
if [ "${1:-}" != inside ]; then
    exec unshare --net --mount "$0" inside
fi
ip link set lo up
. "$(dirname "$0")/../lib/tap"

image=${IMAGE:-build/image}
version=$("$TOLLGATE" --version | cut -d ' ' -f 2)
megabytes() { echo $((($1 + 999999) / 1000000)); }
packed=$(megabytes "$(stat -c %s "$image/tollgate-$version.oci.tar")")
check 'the packed image is under 40 MB' test "$packed" -lt 40

# Another program than the one that wrote it unpacks it.
check 'umoci unpacks it' umoci unpack --image "$image/oci:$version" "$tmp/bundle"
unpacked=$(megabytes "$(du -sb "$tmp/bundle/rootfs" | cut -f 1)")
check 'the unpacked image is under 40 MB' test "$unpacked" -lt 40
echo "# packed $packed MB, unpacked $unpacked MB"
root=$tmp/bundle/rootfs
check 'there is no shell in it' test ! -e "$root/usr/bin/sh" -a ! -e "$root/usr/bin/bash"
check 'there are zones and certificates' test -s "$root/usr/share/zoneinfo/Europe/Berlin" -a \
    -s "$root/etc/ssl/certs/ca-certificates.crt"
check 'nothing in it is owned by the user of the gateway but its state' \
    test "$(find "$root" -uid 10001)" = "$root/var/lib/tollgate"
check 'nothing is set-user-id' test -z "$(find "$root" -perm /6000)"

# A provider and a tenant, mounted as an operator would.
mkdir "$tmp/conf.d"
key=$("$TOLLGATE" key new --name test)
cat >"$tmp/conf.d/demo.yaml" <<END
providers:
  demo: {base_url: "http://127.0.0.1:9099", api: openai, keys: [{name: k1, secret: sk-demo}]}
models:
  demo-small: {provider: demo, price: {input: 0.15, output: 0.60}, max_output_tokens: 4096, context: 128000}
tenants:
  - name: team
    keys:
      $(echo "$key" | sed -n 2p)
    budgets: [{usd: 5, per: day, tz: Europe/Berlin}]
END
chmod 755 "$tmp" "$tmp/conf.d"
key=$(echo "$key" | sed -n 1p)

# User, command and environment as umoci derives them from the image; the root cannot be written, and what
# is below it is what a container gets. chroot takes the place of a container's runtime, most of which ask
# for control groups.
settings=$(python3 - "$tmp/bundle/config.json" <<'END'
import json, shlex, sys
with open(sys.argv[1]) as file:
    process = json.load(file)["process"]
print("user=%d:%d" % (process["user"]["uid"], process["user"]["gid"]))
print("command=%s" % shlex.quote(shlex.join(process["args"])))
print("settings=%s" % shlex.quote(shlex.join(process["env"])))
END
)
eval "$settings"
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=0700,uid=10001,gid=10001 state "$root/var/lib/tollgate"
mount --bind "$tmp/conf.d" "$root/etc/tollgate/conf.d"
mount -o remount,bind,ro "$root/etc/tollgate/conf.d"
mount -o remount,bind,ro "$root"

"$TOLLGATE" mock >"$tmp/mock" &
mock=$!
env -i $settings /usr/bin/setpriv --no-new-privs /usr/sbin/chroot --userspec="$user" "$root" $command >"$tmp/log" 2>&1 &
gateway=$!
trap 'kill $mock $gateway 2>/dev/null; wait; umount -l "$root"; rm -rf "$tmp"' EXIT

ready=$(curl -s --retry 30 --retry-delay 1 --retry-connrefused -o /dev/null -w '%{http_code}' http://127.0.0.1:8081/readyz)
same 'it becomes ready' 200 "$ready"
pid=$gateway
check 'its user is 10001, and it has no capability' sh -c '
    grep -P "^Uid:\t10001\t10001" "$1" && grep -P "^CapEff:\t0+$" "$1" && grep -P "^NoNewPrivs:\t1$" "$1"' - "/proc/$pid/status"
check 'its root cannot be written' sh -c 'test -d "$1/root/etc/tollgate" && ! touch "$1/root/etc/tollgate/x" && ! touch "$1/root/x"' - "/proc/$pid"
check 'a call is served' curl -sS --fail -H "authorization: Bearer $key" -H 'content-type: application/json' \
    -d '{"model":"demo-small","max_tokens":8,"messages":[{"role":"user","content":"hello"}]}' \
    http://127.0.0.1:8080/v1/chat/completions
check 'and counted' sh -c 'curl -sS http://127.0.0.1:8081/metrics | grep "^tollgate_requests_total{.*tenant=\"team\".*} 1"'
kill -TERM "$pid"
wait "$gateway"
status=$?
check 'it ends when it is told to' test $status -eq 0
[ $status -eq 0 ] || sed 's/^/# /' "$tmp/log"
finish
