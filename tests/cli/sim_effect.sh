#!/bin/sh
# sim_effect.sh - `tollgate sim` has no option and reads no field that does nothing: what has no effect
# on a run is refused, with what is in its way, and taken where it has one.
set -u
. "$(dirname "$0")/../lib/tap"

printf 'request_id,input_tokens,output_tokens,arrival_time_us\n0,10,10,1\n1,10,10,2\n' >"$tmp/trace.csv"
cat >"$tmp/load.yaml" <<'END'
version: "2"
aggregate_rate: 100
num_requests: 5
clients:
  - id: one
    rate_fraction: 1
    slo_class: critical
    arrival: {process: constant}
    input_distribution: {type: constant, params: {value: 10}}
    output_distribution: {type: constant, params: {value: 10}}
END
printf 'gate: {}\n' >"$tmp/gate.yaml"
printf 'admission: {policy: token-bucket}\n' >"$tmp/bucket.yaml"
printf 'admission: {policy: reject-all}\n' >"$tmp/none.yaml"

# useless OPTION WHY ARGUMENTS...: it is an error, and the reason is given.
useless() {
    named=$1 why=$2
    shift 2
    run sim --num-requests 3 "$@"
    expect "D4 $named: $why" 2 "$named has no effect here: $why"
}

# taken ARGUMENTS...: they are not refused.
taken() {
    run sim --num-requests 5 "$@"
    expect "taken: $*" 0
}

# ---- The load ----

for option in '--rate 5' '--workload chatbot' '--prompt-tokens 9' '--prompt-tokens-stdev 1' \
    '--prompt-tokens-min 2' '--prompt-tokens-max 99999' '--output-tokens 9' '--output-tokens-stdev 1' \
    '--output-tokens-min 2' '--output-tokens-max 99999' '--prefix-tokens 9'; do
    useless "${option% *}" 'the requests are those of --trace' --trace "$tmp/trace.csv" $option
    useless "${option% *}" 'the requests are those of --workload-spec' --workload-spec "$tmp/load.yaml" $option
    taken $option
done
useless --rate 'the requests are those of --workload-spec' --workload-spec "$tmp/load.yaml" \
    --sweep rate=100:140:+20
useless --rate '--sweep gives it' --rate 5 --sweep rate=10:20:+10
taken --sweep rate=10:20:+10

# ---- Admission ----

bucket='it is for --admission-policy token-bucket'
useless --token-bucket-capacity "$bucket" --token-bucket-capacity 5
useless --token-bucket-refill-rate "$bucket" --admission-policy reject-all --token-bucket-refill-rate 5
useless --token-bucket-capacity "$bucket" --sweep token-bucket-capacity=1:4:x2
useless --law-sample 'it is for --admission-policy gate' --law-sample ttft
taken --admission-policy gate -c "$tmp/gate.yaml" --law-sample ttft
useless --retry 'always-admit refuses nobody' --retry
useless --max-retries 'always-admit refuses nobody' --max-retries 1
useless --retry-backoff 'it is for --retry' --admission-policy reject-all --retry-backoff 5
useless --retry-jitter 'it is for --retry' --admission-policy reject-all --retry-jitter 0.5
taken --admission-policy reject-all --retry --retry-backoff 5 --retry-jitter 0.5
taken --admission-policy reject-all --max-retries 1 --retry-backoff 5
taken --admission-policy reject-all --retry-backoff 5 --sweep max-retries=0:2:+1

# ---- The gateway queue ----

for option in '--saturation-detector utilization' '--queue-depth-threshold 5' \
    '--kv-cache-util-threshold 0.5' '--max-concurrency 5' '--max-gateway-queue-depth 5' \
    '--per-band-capacity 5' --queue-shedding '--request-ttl 5000' '--dispatch-tick-interval 500' \
    --in-flight-eviction '--usage-limit-threshold 0.5' '--dispatch-order slo-deadline' \
    '--fairness-policy round-robin' '--slo-targets critical=500'; do
    useless "${option% *}" 'it is for --flow-control' $option
done
flow='--flow-control --saturation-detector'
useless --queue-depth-threshold 'it is for --saturation-detector utilization' \
    $flow concurrency --queue-depth-threshold 5
useless --kv-cache-util-threshold 'it is for --saturation-detector utilization' \
    $flow concurrency --kv-cache-util-threshold 0.5
useless --max-concurrency 'it is for --saturation-detector concurrency' $flow utilization --max-concurrency 5
useless --queue-shedding 'a queue is full with --max-gateway-queue-depth' $flow utilization --queue-shedding
useless --slo-targets 'it is for --dispatch-order slo-deadline' $flow utilization --slo-targets critical=5
useless --retry 'a queue without --max-gateway-queue-depth or --per-band-capacity refuses nobody' \
    $flow utilization --retry
useless --admission-policy '--flow-control takes the place of a policy' \
    $flow utilization --admission-policy reject-all
taken $flow utilization --queue-depth-threshold 5 --kv-cache-util-threshold 0.5 --request-ttl 5000 \
    --max-gateway-queue-depth 5 --queue-shedding --retry --fairness-policy round-robin
taken $flow concurrency --max-concurrency 5 --workload-spec "$tmp/load.yaml" --dispatch-order slo-deadline \
    --slo-targets critical=500

# ---- Routing, memory ----

useless --routing-scorers 'it is for --routing-policy weighted' --num-instances 2 --routing-scorers queue-depth:1
useless --snapshot-refresh-interval 'round-robin and this admission look at no instance' \
    --snapshot-refresh-interval 5
useless --cache-signal-delay 'it is for --routing-policy weighted' --cache-signal-delay 5
useless --cache-signal-delay 'it is for the scorer precise-prefix-cache' --routing-policy weighted \
    --routing-scorers queue-depth:1 --cache-signal-delay 5
useless --gpu-memory-utilization '--total-kv-blocks says how much room there is' \
    --total-kv-blocks 1000 --gpu-memory-utilization 0.5
taken --num-instances 2 --routing-policy weighted --routing-scorers precise-prefix-cache:1 \
    --snapshot-refresh-interval 5 --cache-signal-delay 5 --gpu-memory-utilization 0.5

# ---- Comparisons: one of the rows is enough ----

useless --token-bucket-capacity "$bucket" --compare "$tmp/none.yaml,$tmp/gate.yaml" --token-bucket-capacity 5
taken --compare "$tmp/bucket.yaml,$tmp/gate.yaml" --token-bucket-capacity 5000
useless --admission-policy 'with --compare the files say it' --compare "$tmp/bucket.yaml,$tmp/none.yaml" \
    --admission-policy always-admit
useless --policy-config 'with --compare the files say it' --compare "$tmp/bucket.yaml,$tmp/none.yaml" \
    --policy-config "$tmp/none.yaml"

# ---- Classes that the load does not have ----

for option in --slo-ttft --slo-itl --slo-e2e; do
    useless $option "no request is of the class 'critcal'" --workload-spec "$tmp/load.yaml" $option critcal=300ms
    taken --workload-spec "$tmp/load.yaml" $option critical=300ms
done

# ---- Fields ----

# field NAME WORDS LINE-OF-A-CLIENT
field() {
    sed "s/^    slo_class: critical/&\n    $3/" "$tmp/load.yaml" >"$tmp/field.yaml"
    run sim --workload-spec "$tmp/field.yaml"
    expect "S9 $1" 2 "$tmp/field.yaml:" "$2"
}
field 'a client that does not wait does not think' "'think_time_us' has no effect" 'think_time_us: 1000'
field 'a prefix that nobody shares' "'prefix_length' has no effect without 'prefix_group'" 'prefix_length: 5'
field 'a model that the cluster does not serve' "client 'one' has the model 'gpt-4o'" 'model: gpt-4o'
run sim --workload-spec "$tmp/field.yaml" --admission-policy gate -c "$tmp/gate.yaml"
expect 'S9 a gate tells models apart' 0
sed 's/gpt-4o/qwen\/qwen3-14b/' "$tmp/field.yaml" >"$tmp/own.yaml"
run sim --workload-spec "$tmp/own.yaml"
expect 'S9 the model of the cluster may be named' 0

# column NAME VALUE STATUS
column() {
    printf 'request_id,input_tokens,output_tokens,arrival_time_us,%s\n0,10,10,1,0\n1,10,10,2,%s\n' "$1" "$2" \
        >"$tmp/column.csv"
    run sim --trace "$tmp/column.csv"
}
for it in round_index think_time_us image_tokens audio_tokens video_tokens adapter unheard_of; do
    column $it 7
    expect "S9 the column $it" 2 "$tmp/column.csv:3: '$it' is '7', and that is not simulated"
    for nothing in '' 0 0.0 false '""'; do
        column $it "$nothing"
        expect "S9 the column $it with '$nothing'" 0
    done
done
for it in session_id send_time_us status finish_reason text_tokens streaming; do
    column $it 7
    expect "S9 the column $it says nothing about how a request is served" 0
done
printf '{"t":1,"model":"gpt-4o"}\n' >"$tmp/models.jsonl"
run sim --trace "$tmp/models.jsonl"
expect 'S9 a model that only a gate could tell' 0 "warning: requests name the model 'gpt-4o'" \
    'all are served by qwen/qwen3-14b'
run sim --trace "$tmp/models.jsonl" --admission-policy gate -c "$tmp/gate.yaml"
[ -s "$tmp/err" ] && not_ok 'S9 and none where one does' "$(cat "$tmp/err")" || ok 'S9 and none where one does'
finish
