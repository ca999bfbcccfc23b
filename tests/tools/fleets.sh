#!/bin/sh
# fleets.sh - the examples of a fleet, in Kubernetes and under systemd: their Redis keeps what it is told, and nothing is missing that a rolling update needs.
#
# TOLLGATE is the program. That manifests are what Kubernetes takes is seen by schemas.sh, and that the
# configuration in them is good by tests/cli/check_docs.sh.
set -u
. "$(dirname "$0")/../lib/tap"

# file_of MANIFEST NAME: a file of a ConfigMap, the lines that stand deeper than its name.
file_of() {
    awk -v name="$2" '$0 ~ "^  " name ": \\|" { on = 1; next } on && /^    / { print substr($0, 5); next } { on = 0 }' "$1"
}

kubernetes=examples/kubernetes/tollgate.yaml
check 'systemd: the configuration is good' env REDIS_PASSWORD=x "$TOLLGATE" check -c examples/systemd/fleet.yaml

for promise in 'kind: StatefulSet' '  replicas: 2' 'volumeClaimTemplates:' 'updateStrategy: {type: RollingUpdate}' \
    'kind: PodDisruptionBudget' 'podAntiAffinity:' 'topologySpreadConstraints:' 'startupProbe:' 'livenessProbe:' \
    'readinessProbe:' 'preStop:' 'secretName: tollgate-secrets' 'name: tollgate-redis'; do
    check "Kubernetes: $promise" grep -q "$promise" $kubernetes
done
# What the pods are given to end is longer than calls in flight may take.
same 'Kubernetes: pods have longer than drain' 660 "$(sed -n 's/.*terminationGracePeriodSeconds: //p' $kubernetes)"

file_of examples/kubernetes/redis.yaml redis.conf >"$tmp/kubernetes.conf"
cp examples/systemd/redis.conf "$tmp/systemd.conf"
if command -v redis-server >/dev/null; then
    for where in kubernetes systemd; do
        mkdir "$tmp/$where"
        redis-server "$tmp/$where.conf" --port 0 --unixsocket "$tmp/$where/s" --dir "$tmp/$where" >"$tmp/$where/log" 2>&1 &
        server=$!
        until redis-cli -s "$tmp/$where/s" ping >/dev/null 2>&1 || ! kill -0 $server 2>/dev/null; do sleep 0.05; done
        for want in 'appendonly yes' 'maxmemory-policy noeviction'; do
            same "$where: its Redis has $want" "$want" "$(redis-cli -s "$tmp/$where/s" config get "${want% *}" | paste -sd ' ')"
        done
        kill $server
        wait $server
    done
else
    skip 'its Redis keeps what it is told' 'no redis-server here'
fi

if command -v systemd-analyze >/dev/null; then
    mkdir "$tmp/units"
    for unit in tollgate@.service tollgate-gateway.socket tollgate-probe.socket; do
        sed '/^Documentation/d; s|/usr/local/bin/tollgate|/bin/true|' "examples/systemd/$unit" >"$tmp/units/$(echo $unit | sed 's/@/@a/')"
    done
    check 'systemd: it understands the units' sh -c '
        systemd-analyze verify "$1"/*.service "$1"/*.socket >"$1/said" 2>&1; ! grep "^$1\|tollgate" "$1/said"' - "$tmp/units"
else
    skip 'systemd: it understands the units' 'no systemd-analyze here'
fi
for listen in gateway probe; do
    port=$(sed -n "s/^ListenStream=.*:\([0-9]*\)$/\1/p" examples/systemd/tollgate-$listen.socket)
    check "systemd: the socket of $listen has the port of the configuration" grep -q "^  $listen: .*:$port\"" examples/systemd/fleet.yaml
done
finish
