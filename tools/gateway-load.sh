# gateway-load.sh - what bench-gateway and soak-gateway share: to be sourced, by bash.
#
# Starts an upstream that costs next to nothing and a gateway with every stage on, the gateway on core
# 0 and everything else on core 1, and tells what a process has used. TOLLGATE is the program, LOAD the
# folder with load_upstream, load_calls and load_abuse.

tollgate=${TOLLGATE:-build/tollgate}
load=${LOAD:-build/tools}
me=$(basename "$0")
dir=$(mktemp -d)
started=()

stop_all() {
    trap - EXIT INT TERM
    local pid
    for pid in "${started[@]}"; do
        kill "$pid" 2>/dev/null
    done
    wait
    rm -rf "$dir"
}
trap stop_all EXIT
trap 'exit 130' INT TERM

die() {
    echo "$me: $*" >&2
    exit 1
}

# on CORE COMMAND...: pinned, if there is more than one core.
if [ "$(nproc)" -ge 2 ] && taskset -c 1 true 2>/dev/null; then
    on() { exec taskset -c "$@"; }
else
    echo "$me: one core only: everything shares it, and times are those of sharing"
    on() {
        shift
        exec "$@"
    }
fi

# wait_for FILE WORDS: a line of the file has them; $line is it.
wait_for() {
    local _
    for _ in {1..200}; do
        line=$(grep -m 1 -e "$2" "$1" 2>/dev/null) && return
        sleep 0.05
    done
    die "no '$2' after 10 s; $(tail -n 5 "$1")"
}

# $upstream is its port, $upstream_pid its process.
start_upstream() {
    (on 1 "$load/load_upstream") >"$dir/upstream" 2>&1 &
    upstream_pid=$!
    started+=($!)
    wait_for "$dir/upstream" listening
    upstream=${line##*:}
}

# start_gateway NAME WORKERS GATE: $port and $probe are its ports, $gateway_pid its process, $key a
# tenant's key. GATE is the part of the configuration that differs; $log_level and $more_config may be
# set for it, too.
start_gateway() {
    local name=$1 workers=$2 gate=$3 hash
    { read -r key && read -r hash; } < <("$tollgate" key new --name load)
    hash=$(sed 's/.*sha256: "\([0-9a-f]*\)".*/\1/' <<<"$hash")
    cat >"$dir/$name.yaml" <<END
listen: {gateway: "127.0.0.1:0", probe: "127.0.0.1:0"}
workers: $workers
log: {level: ${log_level:-warn}}
ledger: {path: "$dir/$name.db"}
limits: {connections: 20000}
gate:
  memory: {}
  rate: {strategy: gcra, limit: 1000000, period: 1s}
  cost: {strategy: token_bucket, capacity: 1000000000, refill: 1000000000}
$gate
providers:
  bench:
    base_url: "http://127.0.0.1:$upstream"
    api: openai
    keys:
      - {name: k1, secret: "\${LOAD_KEY}", rpm: 1000000000, tpm: 1000000000000}
      - {name: k2, secret: "\${LOAD_KEY}", rpm: 1000000000, tpm: 1000000000000}
      - {name: k3, secret: "\${LOAD_KEY}", rpm: 1000000000, tpm: 1000000000000}
models:
END
    local model
    for model in bench bench-slow bench-held bench-flood; do
        echo "  $model: {provider: bench, price: {input: 0.15, output: 0.60}," \
            "concurrency: {max: 8192}}" >>"$dir/$name.yaml"
    done
    cat >>"$dir/$name.yaml" <<END
budgets: [{usd: 1000000, per: month}]
tenants:
  - name: load
    keys: [{name: load, sha256: "$hash"}]
    budgets: [{usd: 100000, per: day}]
${more_config:-}
END
    (LOAD_KEY=sk-load on 0 "$tollgate" serve -c "$dir/$name.yaml") >"$dir/$name.log" 2>&1 &
    gateway_pid=$!
    started+=($!)
    wait_for "$dir/$name.log" 'listening on'
    port=$(sed 's/.* on [^ ]*:\([0-9]*\) (gateway).*/\1/' <<<"$line")
    probe=$(sed 's/.*:\([0-9]*\) (probe).*/\1/' <<<"$line")
}

# The gate of a bench that refuses nothing. Before models the gate takes `max` and no law of its own;
# laws are the models', and theirs is none here.
wide_gate='  concurrency: {max: 8192}
  peers: {limit: 8192}'

# stop PID
stop() {
    kill "$1" 2>/dev/null
    wait "$1" 2>/dev/null
    local pid rest=()
    for pid in "${started[@]}"; do
        [ "$pid" = "$1" ] || rest+=("$pid")
    done
    started=("${rest[@]}")
}

# Nanoseconds of processor time, all threads; kilobytes of memory.
cpu_of() { cat /proc/"$1"/task/*/schedstat 2>/dev/null | awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }
rss_of() { awk '/^VmRSS/ { print $2 }' /proc/"$1"/status; }

# calls ARGUMENTS...: load_calls on core 1; its line becomes the array `got`.
declare -A got
calls() {
    local word said
    said=$(on 1 "$load/load_calls" "$@") || die "load_calls $* failed: $said"
    got=()
    for word in $said; do
        got[${word%%=*}]=${word#*=}
    done
}

# How busy the machine is beside us: a figure without it means nothing.
load_average() { cut -d ' ' -f 1 /proc/loadavg; }
