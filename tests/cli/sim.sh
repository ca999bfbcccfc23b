#!/bin/sh
# sim.sh - `tollgate sim`: the published example to the microsecond, every form of load and of
# output, and what it says when it is asked wrongly.
#
# golden/sim_seed.csv is the load of the example, golden/sim_seed.txt what another simulator, BLIS,
# says of each request that was served: id, instance, and milliseconds to the first token, to the
# last, and until it was scheduled.
set -u
. "$(dirname "$0")/../lib/tap"

seed="$here/golden/sim_seed.csv"

# has NAME WORDS...: stdout of the last run, which was good, has all these words.
has() {
    name=$1
    shift
    if [ "$status" -ne 0 ]; then
        not_ok "$name" "status $status" "$(cat "$tmp/err")"
        return
    fi
    for words; do
        if ! grep -qF -e "$words" "$tmp/out"; then
            not_ok "$name" "nothing of '$words' in:" "$(head -c 2000 "$tmp/out")"
            return
        fi
    done
    ok "$name"
}

# field NAME: of the first object in $tmp/out.
field() {
    sed -n '1s/[{,]"'"$1"'":\([^,}]*\)[,}].*/\n\1/p' "$tmp/out" | sed -n 2p
}

# adds_up NAME: every request is in one place.
adds_up() {
    sum=0
    for part in injected_requests rejected_requests routing_rejections gateway_queue_depth \
        gateway_queue_shed gateway_queue_rejected gateway_evicted gateway_expired in_pipeline \
        not_arrived; do
        sum=$((sum + $(field $part)))
    done
    same "$1" "$(field num_requests)" "$sum"
}

# ---- The published example ----

run sim --model qwen/qwen3-14b --num-instances 4 --num-requests 2000 \
    --admission-policy token-bucket --token-bucket-capacity 10000 --token-bucket-refill-rate 1000 \
    --trace "$seed" --results "$tmp/results" --plot "$tmp/run.svg"
has 'the example: 118 completed, 1882 rejected' 'completed                    118    5.9 %' \
    'rejected                    1882   94.1 %' 'insufficient tokens         1882'
[ -s "$tmp/err" ] && not_ok 'no progress when piped' "$(cat "$tmp/err")" || ok 'no progress when piped'

# Of a line of results: the field of that name, without quotes.
awk '
function get(name,    at) {
    at = index($0, "\"" name "\":")
    rest = substr($0, at + length(name) + 3)
    if (substr(rest, 1, 1) == "\"") { rest = substr(rest, 2); sub(/".*/, "", rest) }
    else sub(/[,}].*/, "", rest)
    return rest
}
get("status") == "completed" {
    print get("id"), get("instance"), get("ttft_ms"), get("e2e_ms"), get("scheduling_delay_ms")
}' "$tmp/results" | sort >"$tmp/served"
sort "$here/golden/sim_seed.txt" >"$tmp/want"
if cmp -s "$tmp/want" "$tmp/served"; then
    ok 'every served request: instance and times to the microsecond'
else
    not_ok 'every served request: instance and times to the microsecond' \
        "$(diff "$tmp/want" "$tmp/served" | head -n 6)"
fi
same 'a line a request' 2000 "$(wc -l <"$tmp/results" | tr -d ' ')"
same 'a line of one that was refused' \
    '{"id":"request_18","arrival_us":38000,"slo_class":"","tenant":"","admitted":false,"reason":"insufficient tokens","instance":null,"ttft_ms":null,"e2e_ms":null,"scheduling_delay_ms":null,"status":"rejected"}' \
    "$(sed -n 19p "$tmp/results")"
run sim --num-instances 4 --admission-policy token-bucket --trace "$seed" --json
same 'its mean time to the first token' 35.230788135593215 "$(field ttft_mean_ms)"
same 'its p99 to the last' 14985.875719999996 "$(field e2e_p99_ms)"
same 'its mean between tokens' 12.955610603352332 "$(field itl_mean_ms)"
same 'its tokens' '13910 59420' "$(field total_input_tokens) $(field total_output_tokens)"
same 'refused, by reason' '{"insufficient tokens":1882}' \
    "$(sed 's/.*"rejected_by_reason":\({[^}]*}\),"classes".*/\1/' "$tmp/out")"
same 'refused, by class' '{"standard":1882}' \
    "$(sed 's/.*"rejected_by_class":\({[^}]*}\).*/\1/' "$tmp/out")"
adds_up 'each request is in one place'
cp "$tmp/out" "$tmp/plain"

# ---- Latency, one instance, horizon ----

run sim --num-instances 4 --admission-policy token-bucket --trace "$seed" --json \
    --admission-latency 1000 --routing-latency 500
same 'latencies add to the time to the first token' 36.730788135593215 "$(field ttft_mean_ms)"
run sim --num-instances 1 --admission-policy token-bucket --trace "$seed" --json
same 'one instance has admission too' 1882 "$(field rejected_requests)"
run sim --num-instances 4 --trace "$seed" --admission-policy reject-all --json
same 'reject-all' '0 2000' "$(field completed_requests) $(field rejected_requests)"
for horizon in 1 17000 1500000 3999999; do
    run sim --num-instances 4 --admission-policy token-bucket --trace "$seed" --json \
        --horizon "$horizon" --admission-latency 5000 --routing-latency 7000
    adds_up "a horizon of $horizon us loses nothing"
done
same 'what is on its way is counted' true \
    "$([ "$(field in_pipeline)" -gt 0 ] && echo true || echo "$(field in_pipeline)")"
run sim --num-instances 4 --trace "$seed" --max-num-seqs 8 --max-num-batched-tokens 512 --json
cp "$tmp/out" "$tmp/first"
run sim --num-instances 4 --trace "$seed" --max-num-running-reqs 8 --max-num-scheduled-tokens 512 --json
cmp -s "$tmp/first" "$tmp/out" && ok 'older names of options' || not_ok 'older names of options'
run sim --num-instances 4 --admission-policy token-bucket --token-bucket-capacity 1e30 --trace "$seed" --json
same 'a bucket without bounds' 0 "$(field rejected_requests)"
run sim --trace "$seed" --num-requests 10 --json
same '--num-requests takes the first' 10 "$(field num_requests)"

# ---- Loads ----

cat >"$tmp/load.yaml" <<'END'
version: "2"
seed: 42
aggregate_rate: 200
num_requests: 1500
clients:
  - id: crit
    tenant_id: acme
    slo_class: critical
    rate_fraction: 0.4
    arrival: {process: poisson}
    input_distribution: {type: gaussian, params: {mean: 256, std_dev: 128, min: 2, max: 2048}}
    output_distribution: {type: gaussian, params: {mean: 128, std_dev: 64, min: 2, max: 512}}
  - id: bat
    tenant_id: globex
    slo_class: batch
    rate_fraction: 0.6
    arrival: {process: gamma, cv: 2.5}
    input_distribution: {type: lognormal, params: {mu: 6.5, sigma: 0.8, max: 8000}}
    output_distribution: {type: exponential, params: {mean: 150}}
END
printf 'admission:\n  policy: token-bucket\n  token_bucket_capacity: 20000\n  token_bucket_refill_rate: 30000\n' \
    >"$tmp/bucket.yaml"
printf 'admission:\n  policy: tier-shed\n  tier_shed_threshold: 60\ntenant_budgets: {globex: 0.05}\n' \
    >"$tmp/tier.yaml"
printf 'admission: {policy: gaie-legacy, gaie_qd_threshold: 2, slo_priorities: {batch: -7}}\nrouting: {policy: weighted, scorers: [{name: queue-depth, weight: 2}]}\nscheduler: priority-fcfs\n' \
    >"$tmp/gaie.yaml"

for policy in bucket tier gaie; do
    run sim --num-instances 4 --workload-spec "$tmp/load.yaml" --policy-config "$tmp/$policy.yaml" --json
    same "$policy: it refuses" true "$([ "$(field rejected_requests)" -gt 50 ] && echo true || cat "$tmp/err")"
    adds_up "$policy: nothing is lost"
done
same 'the lowest class is shed' '"rejected_by_class":{"batch":' \
    "$(grep -o '"rejected_by_class":{"[a-z]*":' "$tmp/out")"
run sim --num-instances 4 --workload-spec "$tmp/load.yaml" --policy-config "$tmp/bucket.yaml" \
    --token-bucket-capacity 100000000 --json
same 'an option beats the file' 0 "$(field rejected_requests)"
run sim --num-instances 4 --workload-spec "$tmp/load.yaml" --flow-control \
    --saturation-detector concurrency --max-concurrency 20 --max-gateway-queue-depth 100 \
    --queue-shedding --request-ttl 400000 --json
adds_up 'the gateway queue loses nothing'
same 'and is used' true "$([ "$(field gateway_expired)" -gt 0 ] && echo true || cat "$tmp/out")"
run sim --workload-spec "$tmp/load.yaml" --json
cp "$tmp/out" "$tmp/first"
run sim --workload-spec "$tmp/load.yaml" --seed 43 --json
cmp -s "$tmp/first" "$tmp/out" && not_ok 'another seed, another load' || ok 'another seed, another load'

printf '{"t":%s,"id":"a","tenant":"x","input_tokens":100,"output_tokens":20,"status":200}\n{"t":%s,"tenant":"x","priority":"low","input_tokens":50,"max_output_tokens":60,"status":429,"reason":"rate"}\n' \
    1731650400000 1731650400250 >"$tmp/recorded"
run sim --trace "$tmp/recorded" --results "$tmp/results"
has 'a recorded trace' 'completed                      2'
same 'its times begin with it' '"id":"a","arrival_us":0 "id":"request_1","arrival_us":250000' \
    "$(sed 's/^{\(.*\),"slo_class.*/\1/' "$tmp/results" | tr '\n' ' ' | sed 's/ $//')"
run sim --trace - <"$tmp/recorded"
has 'a trace on stdin' 'completed                      2'
run sim --num-requests 20 --rate 5 --workload chatbot --seed 3
has 'without any file' '20 requests, 1 instance of qwen/qwen3-14b on H100' 'completed                     20'

# ---- Many runs ----

run sim --num-instances 4 --trace "$seed" --admission-policy token-bucket \
    --sweep token-bucket-capacity=1000:64000:x4 --plot "$tmp/sweep.svg"
has 'a sweep has a row a value' 'token-bucket-capacity completed' '                 1000' \
    '                 4000' '                16000' '                64000'
run sim --num-instances 4 --trace "$seed" --admission-policy token-bucket \
    --sweep token-bucket-refill-rate=1000:2000:+500 --json
same 'a sweep by steps' '1000 1500 2000' \
    "$(grep -o '"value":[0-9]*' "$tmp/out" | cut -d: -f2 | tr '\n' ' ' | sed 's/ $//')"
same 'and its first row is the run alone' 1882 \
    "$(sed 's/.*"value":1000,[^}]*"rejected_requests":\([0-9]*\),.*"value":1500.*/\1/' "$tmp/out")"
run sim --sweep rate=10:20:+10 --num-requests 30 --json
same 'a sweep of the load' '"sweep":"rate"' "$(grep -o '"sweep":"rate"' "$tmp/out")"
printf 'gate:\n  rate: {strategy: gcra, limit: 50, period: 1s}\n' >"$tmp/gate.yaml"
run sim --num-instances 4 --workload-spec "$tmp/load.yaml" \
    --compare "$tmp/bucket.yaml,$tmp/tier.yaml,$tmp/gate.yaml" --plot "$tmp/compare.svg"
has 'a comparison has a row a file' "$tmp/bucket.yaml" "$tmp/tier.yaml" "$tmp/gate.yaml"
run sim --num-instances 4 --workload-spec "$tmp/load.yaml" --compare "$tmp/bucket.yaml,$tmp/gate.yaml" --json
same 'of a policy file and of a gate' 'token-bucket gate' \
    "$(grep -o '"admission_policy":"[a-z-]*"' "$tmp/out" | cut -d'"' -f4 | tr '\n' ' ' | sed 's/ $//')"

# ---- Pictures ----

# picture NAME FILE LABELS...: it is XML, has these labels and no number that is none.
picture() {
    name="$1: the picture"
    file=$2
    shift 2
    if [ ! -s "$file" ] || [ "$(tail -n 1 "$file")" != '</svg>' ]; then
        not_ok "$name" 'there is none, or not all of it'
        return
    fi
    if command -v xmllint >/dev/null && ! why=$(xmllint --noout "$file" 2>&1); then
        not_ok "$name" "$why"
        return
    fi
    for label; do
        if ! grep -qF ">$label</text>" "$file"; then
            not_ok "$name" "no label $label"
            return
        fi
    done
    if grep -qiE '[ ",](nan|inf|-nan)' "$file"; then
        not_ok "$name" 'a number that is none'
        return
    fi
    ok "$name"
}

picture 'a run' "$tmp/run.svg" 'Admission by token-bucket' 'Load, requests a second' arrived admitted \
    completed 'Refused, requests a second' 'insufficient tokens' 'Inside, requests' running queued \
    'Time to the first token, ms' p50 p99 'time, seconds'
picture 'a sweep' "$tmp/sweep.svg" 'What token-bucket-capacity does' 'Requests, percent' 10k mean p99
picture 'a comparison' "$tmp/compare.svg" bucket.yaml tier.yaml gate.yaml 'Completed, requests a second'
run sim --num-requests 3 --plot "$tmp/none/x.svg"
expect 'a folder that is not there' 1 "cannot write $tmp/none/x.svg: No such file"
run sim --num-requests 3 --results "$tmp/none/x"
expect 'nor for results' 1 "cannot write $tmp/none/x: No such file"
if [ -w /dev/full ]; then
    run sim --num-requests 3 --results /dev/full
    expect 'a full disk' 1 'cannot write /dev/full: No space left'
else
    skip 'a full disk' 'there is no /dev/full'
fi

# ---- Warnings ----

run sim --num-instances 4 --trace "$seed" --admission-policy token-bucket --token-bucket-capacity 500
expect 'a bucket smaller than the mean request' 0 'warning: the bucket holds 500 tokens' '512.3 on average'
run sim --trace "$seed" --admission-policy token-bucket --token-bucket-capacity 600 --num-requests 50
[ -s "$tmp/err" ] && not_ok 'a larger one gets no warning' "$(cat "$tmp/err")" || ok 'a larger one gets no warning'
printf '{"t":1,"id":"a"}\n{"t":2,"op":"release","id":"a"}\n' >"$tmp/replay"
run sim --trace "$tmp/replay"
expect 'lines that are no arrivals' 0 'warning: 1 lines are not arrivals'

# ---- Asked wrongly ----

for bad in 0 -1 nan NaN inf -inf 1e999 '' x 10k 0x10 ' 5'; do
    for option in capacity refill-rate; do
        run sim --admission-policy token-bucket "--token-bucket-$option" "$bad"
        expect "--token-bucket-$option '$bad'" 2 \
            "--token-bucket-$option is '$bad'; it must be a finite number above 0"
    done
done
run sim --admission-policy bucket
expect 'no such policy' 2 "there is no 'bucket'; there are always-admit, token-bucket, reject-all, tier-shed, gaie-legacy, gate"
run sim --num-instances 0
expect 'no instance' 2 "--num-instances is '0'; it must be a whole number from 1 to"
run sim --rate 0
expect 'no rate' 2 "--rate is '0'; it must be a finite number above 0"
run sim --admission-latency -1
expect 'a negative latency' 2 "--admission-latency is '-1'; it must be a whole number from 0 on"
run sim --admission-latency 1e17
expect 'a latency of millennia' 2 "--admission-latency is '1e17'; it may be at most 1000000000000000"
run sim --max-num-seqs 8 --max-num-running-reqs 9
expect 'two names for one thing' 2 '--max-num-seqs and --max-num-running-reqs are the same'
run sim --model gpt-9
expect 'no such model' 2 "--model: there is no 'gpt-9'; there are" qwen/qwen3-14b
run sim --latency-model blackbox
expect 'no such latency model' 2 "there is no 'blackbox'; there are trained-physics, roofline"
run sim --routing-policy weighted --routing-scorers queue-depth:0
expect 'a weight of nothing' 2 "the weight '0' must be a finite number above 0"
run sim --slo-ttft critical=fast
expect 'no time' 2 "--slo-ttft: 'fast' is not a time"
run sim --admission-policy gate
expect 'a gate without a configuration' 2 '--admission-policy gate needs -c FILE'
run sim -c "$tmp/gate.yaml"
expect 'a configuration without a gate' 2 '-c FILE is the configuration of --admission-policy gate'
run sim --trace "$seed" --workload-spec "$tmp/load.yaml"
expect 'two loads' 2 'not both'
run sim --trace "$tmp/none"
expect 'no trace' 2 "$tmp/none: No such file"
printf 'request_id,input_tokens,output_tokens,arrival_time_us\n0,1,1,1\n1,many,1,2\n' >"$tmp/bad.csv"
run sim --trace "$tmp/bad.csv"
expect 'a trace that cannot be read, with its line' 2 "$tmp/bad.csv:3: 'input_tokens' is 'many'"
printf '{"t":1}\n{"t":2,\n' >"$tmp/bad.jsonl"
run sim --trace "$tmp/bad.jsonl"
expect 'nor JSON' 2 "$tmp/bad.jsonl:2: "
printf 'aggregate_rate: fast\nclients: []\n' >"$tmp/bad.yaml"
run sim --workload-spec "$tmp/bad.yaml"
expect 'nor a description' 2 "$tmp/bad.yaml:1:17: 'aggregate_rate' is 'fast'"
printf 'admission:\n  policy: token-bucket\n  token_bucket_capacity: -5\n' >"$tmp/bad.yaml"
run sim --policy-config "$tmp/bad.yaml"
expect 'nor a policy file' 2 "$tmp/bad.yaml:3:" "'token_bucket_capacity' is '-5'"
printf 'admission: {policy: token-buckets}\n' >"$tmp/bad.yaml"
run sim --policy-config "$tmp/bad.yaml"
expect 'no such policy in a file' 2 "admission.policy: there is no 'token-buckets'; there are always-admit"
printf 'gate:\n  rte: {}\n' >"$tmp/bad.yaml"
run sim --admission-policy gate -c "$tmp/bad.yaml"
expect 'a wrong gate' 2 "$tmp/bad.yaml:2:3: " rte
for bad in token-bucket-capacity token-bucket-capacity=1:2 token-bucket-capacity=1:2:x1 \
    token-bucket-capacity=2:1:x2 token-bucket-capacity=0:9:x2 admission-policy=1:2:x2 =1:2:+1 rate=1:2:+0; do
    run sim --sweep "$bad"
    expect "--sweep $bad" 2 "--sweep is '$bad'; it must be NAME=FROM:TO:xFACTOR"
done
run sim --sweep num-requests=1:1000:+1
expect 'a sweep without end' 2 'a sweep may have 200 rows'
timeout 20 "$TOLLGATE" sim --sweep num-instances=1:2:+1e-11 >"$tmp/out" 2>"$tmp/err"
status=$?
expect 'a sweep whose steps make no row' 2 'a sweep may have 200 rows'
run sim --compare "$tmp/bucket.yaml"
expect 'nothing to compare with' 2 'one file is compared with nothing'
run sim --compare "$tmp/bucket.yaml,$tmp/none"
expect 'a file that is not there' 2 "$tmp/none: No such file"
run sim 500
expect 'an operand' 2 "unexpected argument '500'"
run sim --polcy x
expect 'no such option' 2 'there is no option --polcy' '--admission-policy NAME'

# ---- The same bytes ----

# outputs PROGRAM FILE
outputs() {
    "$1" sim --num-instances 4 --admission-policy token-bucket --trace "$seed" --json >"$2" 2>&1
    for policy in bucket tier gaie; do
        "$1" sim --num-instances 3 --workload-spec "$tmp/load.yaml" --routing-policy least-loaded \
            --policy-config "$tmp/$policy.yaml" --json --plot "$2.svg" >>"$2" 2>&1
        cat "$2.svg" >>"$2"
    done
    "$1" sim --workload-spec "$tmp/load.yaml" --admission-policy gate -c "$tmp/gate.yaml" \
        --latency-model roofline --retry --retry-jitter 0.5 --json >>"$2" 2>&1
}

# again NAME PROGRAM
again() {
    if [ -z "$2" ]; then
        skip "$1" 'there is no such program: make test builds it'
        return
    fi
    outputs "$2" "$tmp/other"
    if cmp -s "$tmp/once" "$tmp/other"; then
        ok "$1"
    else
        not_ok "$1" "$(cmp "$tmp/once" "$tmp/other")"
    fi
}

outputs "$TOLLGATE" "$tmp/once"
again 'twice the same bytes' "$TOLLGATE"
again 'by gcc at -O0' "${TOLLGATE_O0:-}"
again 'by gcc at -O3' "${TOLLGATE_O3:-}"
again 'by clang at -O0' "${TOLLGATE_CLANG_O0:-}"
again 'by clang at -O3' "${TOLLGATE_CLANG_O3:-}"
again 'without asserts' "${TOLLGATE_SHIP:-}"
[ -z "${TOLLGATE_X86_64:-}" ] || again 'on x86-64' "$TOLLGATE_X86_64"
finish
