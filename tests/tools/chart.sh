#!/bin/sh
# chart.sh - the Helm chart: what it becomes is what the API of Kubernetes takes, and has what it promises.
#
# TOLLGATE is the program, VALIDATORS the folder with validators. What helm makes of the chart is in
# chart/; with HELM it is made anew and compared, and the chart is linted.
set -u
. "$(dirname "$0")/../lib/tap"

python=${VALIDATORS:-build/validators}/bin/python
version=$(sed -n 's/^#define TG_VERSION "\(.*\)"/\1/p' include/tollgate.h)
same 'the version of the chart' "$version" "$(sed -n 's/^version: //p' packaging/helm/tollgate/Chart.yaml)"
same 'the version of the program in it' "\"$version\"" "$(sed -n 's/^appVersion: //p' packaging/helm/tollgate/Chart.yaml)"

for values in "$here"/chart/*.values.yaml; do
    name=$(basename "$values" .values.yaml)
    manifest=$here/chart/$name.yaml
    same "$name: rendered from the chart as it is ('make chart' renders it anew)" \
        "# $(tools/chart-hash "$values"), by tools/render-chart" "$(head -n 1 "$manifest")"
    if [ -x "$python" ]; then
        # kubernetes-validate reads one document at a time from standard input, or all of a file.
        check "$name: what the API of Kubernetes takes" "$python" -m kubernetes_validate --strict -k 1.34 "$manifest"
    else
        skip "$name: what the API of Kubernetes takes" 'no validators here; make test installs them'
    fi
    # The configuration: lines of the ConfigMap that stand deeper than the name of the file.
    awk '/^  tollgate.yaml: \|/ { on = 1; next } on && /^    / { print substr($0, 5); next } { on = 0 }' \
        "$manifest" >"$tmp/$name.yaml"
    check "$name: a configuration that is good" env TOLLGATE_STORE=redis://default:x@127.0.0.1:6379 \
        "$TOLLGATE" check -c "$tmp/$name.yaml"
    for promise in 'kind: PodDisruptionBudget' 'readinessProbe:' 'livenessProbe:' 'startupProbe:' 'preStop:' \
        'runAsNonRoot: true' 'readOnlyRootFilesystem: true' 'automountServiceAccountToken: false'; do
        check "$name: $promise" grep -q "$promise" "$manifest"
    done
done
two=$here/chart/two.yaml one=$here/chart/one.yaml
check 'two gateways by default' grep -q '^  replicas: 2$' "$two"
check 'with Redis' grep -q 'image: "redis:' "$two"
check 'and its address from a secret' grep -q '^    store: ${TOLLGATE_STORE}$' "$two"
check 'and no password outside of it' test "$(grep -c golden "$two")" -eq 2
check 'numbers stay numbers' grep -q 'tpm: 2000000$' "$two"
check 'one gateway has no Redis' sh -c '! grep -i redis "$1" && ! grep "store:" "$1"' - "$one"
check 'and is never evicted' grep -q 'maxUnavailable: 0' "$one"

if [ -n "${HELM:-}" ] && [ -x "$HELM" ]; then
    mkdir "$tmp/again"
    check 'helm lints and renders it' tools/render-chart "$tmp/again"
    for manifest in "$tmp"/again/*.yaml; do
        same_files "$(basename "$manifest") is what helm makes" "$here/chart/$(basename "$manifest")" "$manifest"
    done
    check 'the defaults alone do, too' "$HELM" template tollgate packaging/helm/tollgate --kube-version 1.30.0
    # refused NAME WORDS OPTIONS...: that a mistake is seen, and said.
    refused() {
        name=$1 words=$2
        shift 2
        said=$("$HELM" template x packaging/helm/tollgate --kube-version 1.30.0 "$@" 2>&1) &&
            not_ok "$name" 'it was rendered' || check "$name" sh -c 'echo "$1" | grep -q "$2"' - "$said" "$words"
    }
    refused 'two gateways without Redis' 'need Redis' --set redis.enabled=false
    refused 'an admin API without a token' 'admin.token' --set admin.enabled=true
    refused 'a value that there is not' 'replica' --set replica=3
    refused 'an address in the configuration' "chart's to write" --set config.listen.gateway=x
    refused 'an old Kubernetes' 'kubeVersion' --kube-version 1.28.0
else
    skip 'helm lints and renders it' 'no helm here; make ship-test builds it'
fi
finish
