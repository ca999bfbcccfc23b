#!/bin/sh
# prometheus.sh - what Prometheus makes of a gateway: its page, its alerts, and one that fires.
#
# A gateway with TLS, in front of the mock, has one tenant who is refused after his first call and one
# who is only watched. Prometheus scrapes it every second; everything is waited for by asking, up to a
# bound.
set -u
. "$(dirname "$0")/../lib/tap"

pids=
cleanup() {
    for each in $pids; do
        kill "$each" 2>/dev/null
        wait "$each" 2>/dev/null
    done
    rm -rf "$tmp"
}
trap cleanup EXIT

for tool in promtool prometheus; do
    command -v "$tool" >/dev/null && continue
    echo "1..0 # SKIP there is no $tool here"
    exit 0
done

# until_true COMMAND...: tries for a minute.
until_true() {
    for _ in $(seq 300); do
        "$@" && return
        sleep 0.2
    done
    return 1
}

# said NAME FILE: the address that a program says it listens on.
said() {
    sed -n "s/.*\(127\.0\.0\.1:[0-9]*\) *($1).*/\1/p" "$2" | head -n 1
}

# passes NAME COMMAND...
passes() {
    name=$1
    shift
    if "$@" >"$tmp/out" 2>&1; then ok "$name"; else not_ok "$name" "$(cat "$tmp/out")"; fi
}

# ---- Rules ----

rules=examples/prometheus/tollgate.rules.yml
passes 'the rules are rules' promtool check rules "$rules"
passes 'the example of a configuration is one' \
    promtool check config examples/prometheus/prometheus.yml
passes 'each alert fires when it should and not before' \
    promtool test rules examples/prometheus/tollgate.rules.test.yml

# ---- A gateway with some calls behind it ----

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=localhost \
    -addext 'subjectAltName=IP:127.0.0.1' -keyout "$tmp/key.pem" -out "$tmp/cert.pem" 2>"$tmp/openssl" ||
    cat "$tmp/openssl"

"$TOLLGATE" mock --port 0 >"$tmp/mock.out" 2>&1 &
pids="$pids $!"
until_true grep -q '127.0.0.1:' "$tmp/mock.out"
mock=$(sed -n 's/.*\(127\.0\.0\.1:[0-9]*\).*/\1/p' "$tmp/mock.out" | head -n 1)

key_of() {
    printf '%s' "$1" | sha256sum | cut -d ' ' -f 1
}
cat >"$tmp/gateway.yaml" <<END
listen:
  gateway: "127.0.0.1:0"
  probe: "127.0.0.1:0"
  tls: {cert: "$tmp/cert.pem", key: "$tmp/key.pem"}
ledger: {path: ":memory:"}
gate:
  memory: {poll: 100ms}
protect:
  - {prefix: /mock, upstream: "http://$mock", concurrency: {min: 3}}
providers:
  demo: {base_url: "http://$mock", api: openai, keys: [{name: k1, secret: "\${DEMO_KEY}"}]}
models:
  small: {provider: demo, price: {input: 1, output: 2}}
  scarce: {provider: demo, price: {input: 1, output: 2}, key_limits: {k1: {rpm: 1}}}
tenants:
  - name: refused
    keys: [{name: k, sha256: "$(key_of tg-refused-0001)"}]
    rate: {strategy: gcra, limit: 1, period: 1h}
  - name: watched
    keys: [{name: k, sha256: "$(key_of tg-watched-0001)"}]
    rate: {strategy: gcra, limit: 1, period: 1h}
    mode: shadow
    budgets: [{usd: 1, per: day}]
END
DEMO_KEY=secret-of-the-provider "$TOLLGATE" serve -c "$tmp/gateway.yaml" 2>"$tmp/serve.out" &
serve=$!
pids="$pids $serve"
until_true grep -q 'listening on' "$tmp/serve.out"
gateway=$(said gateway "$tmp/serve.out")
probe=$(said probe "$tmp/serve.out")

# call KEY [MODEL]: prints the status.
call() {
    curl -sS -o "$tmp/reply" -w '%{http_code}' --cacert "$tmp/cert.pem" \
        -H "authorization: Bearer $1" -H 'content-type: application/json' \
        -d '{"model":"'"${2:-small}"'","max_tokens":5,"messages":[{"role":"user","content":"hello"}]}' \
        "https://$gateway/v1/chat/completions" 2>"$tmp/err" || cat "$tmp/err" "$tmp/serve.out"
}

# counts METRIC VALUE: the page has a line of it with this value.
counts() {
    curl -sS "http://$probe/metrics" >"$tmp/page" && grep -qxF -e "$1 $2" "$tmp/page"
}

# line NAME METRIC VALUE: it gets there.
line() {
    if until_true counts "$2" "$3"; then
        ok "$1"
    else
        not_ok "$1" "no line '$2 $3'" "$(cat "$tmp/page" "$tmp/serve.out")"
    fi
}

is() {
    [ "$2" = "$3" ] && ok "$1" || not_ok "$1" "it is '$2', not '$3'" "$(cat "$tmp/reply")"
}

is 'a call passes' "$(call tg-refused-0001)" 200
is 'the next is refused' "$(call tg-refused-0001)" 429
for _ in 1 2 3; do
    is 'in shadow nothing is' "$(call tg-watched-0001)" 200
done

line 'who passed is counted' 'admission_total{result="admitted"}' 4
line 'and who did not' 'admission_total{result="rejected"}' 1
line 'with the reason' 'admission_rejected_reason{reason="rate"}' 1
line 'and the axis' 'tollgate_denied_by_axis_total{axis="rate"}' 1
line 'what shadow would have refused is counted' \
    'tollgate_shadow_denied_total{tenant="watched",reason="rate"}' 2
line 'by tenant, model, provider, code and reason' \
    'tollgate_requests_total{tenant="watched",model="small",provider="demo",code="200",reason="none"}' 3
line 'attempts at the provider' \
    'tollgate_upstream_total{provider="demo",model="small",class="ok"}' 4
line 'each had a wait' 'admission_queue_wait_ms_count{priority="normal"}' 5
line 'and a first byte' 'tollgate_ttft_seconds_count{model="small"}' 4
line 'and overhead' 'tollgate_overhead_seconds_count' 4
grep -q '^tollgate_spend_usd_total{tenant="watched",model="small"} 0\.0*[1-9]' "$tmp/page" &&
    ok 'and a price' || not_ok 'and a price' "$(grep usd "$tmp/page")"
memory=$(sed -n 's/^admission_memory_usage //p' "$tmp/page")
case $memory in
0.*) ok 'memory is measured' ;;
*) not_ok 'memory is measured' "it is '$memory'" ;;
esac
left=$(sed -n 's/^tollgate_cert_expiry_seconds{.*} //p' "$tmp/page")
[ "${left:-0}" -gt 2500000 ] && [ "$left" -le 2592000 ] && ok 'the certificate has a month' ||
    not_ok 'the certificate has a month' "it has '$left'"

code=$(curl -sS -o "$tmp/reply" -w '%{http_code}' --cacert "$tmp/cert.pem" "https://$gateway/mock/x")
line 'a protected route is admitted too' 'admission_total{result="admitted"}' 5
line 'and counted by its code' "tollgate_requests_total{code=\"$code\",reason=\"none\"}" 1
line 'its limit has a minimum' 'tollgate_concurrency_limit_min{gate="protect /mock"}' 3

# ---- Another configuration ----

line 'the first configuration holds' tollgate_config_generation 1
cp "$tmp/gateway.yaml" "$tmp/good.yaml"
echo 'nonsense: true' >>"$tmp/gateway.yaml"
kill -HUP "$serve"
line 'one that is wrong is told of' tollgate_config_reload_failed 1
line 'and counted' 'tollgate_config_reloads_total{result="failed"}' 1
line 'while the old one holds' tollgate_config_generation 1
cp "$tmp/good.yaml" "$tmp/gateway.yaml"
kill -HUP "$serve"
line 'one that is right is taken' tollgate_config_generation 2
line 'and nothing is told of any more' tollgate_config_reload_failed 0
line 'what was counted stays' 'admission_total{result="admitted"}' 5

# ---- One that shares a Redis, which may be away, has some more to tell ----

{ echo 'store: "redis://127.0.0.1:1"' && cat "$tmp/gateway.yaml"; } >"$tmp/shared.yaml"
DEMO_KEY=secret-of-the-provider "$TOLLGATE" serve -c "$tmp/shared.yaml" 2>"$tmp/shared.out" &
pids="$pids $!"
until_true grep -q 'listening on' "$tmp/shared.out"
curl -sS "http://$(said probe "$tmp/shared.out")/metrics" >"$tmp/shared.page"
awk 'FNR == NR { if ($2 == "TYPE") known[$3] = 1; next }
     $2 == "HELP" { more = !known[$3] } more' "$tmp/page" "$tmp/shared.page" >"$tmp/more"
cat "$tmp/more" >>"$tmp/page"

# ---- The page ----

# Two names are those of the metrics that operators of such gates know, and not to the linter's taste.
promtool check metrics <"$tmp/page" >"$tmp/lint" 2>&1
sort "$tmp/lint" >"$tmp/lint.sorted"
cat >"$tmp/lint.known" <<'END'
admission_queue_wait_ms metric names should not contain abbreviated units
admission_rejected_reason counter metrics should have "_total" suffix
END
if cmp -s "$tmp/lint.sorted" "$tmp/lint.known"; then
    ok 'promtool has nothing to say of it but for two given names'
else
    not_ok 'promtool has nothing to say of it but for two given names' "$(cat "$tmp/lint")"
fi
awk '/^# (HELP|TYPE) (admission_queue_wait_ms|admission_rejected_reason) / { next }
     /^admission_(queue_wait_ms|rejected_reason)/ { next } { print }' "$tmp/page" >"$tmp/rest"
passes 'and passes all the others' sh -c "promtool check metrics <'$tmp/rest'"

grep -q 'secret-of-the-provider' "$tmp/page" && not_ok 'no secret is on it' || ok 'no secret is on it'

# ---- What the book says of it ----

# name, type, of the page and of docs/metrics.md.
sed -n 's/^# TYPE //p' "$tmp/page" | sort >"$tmp/of.page"
sed -n 's/^| `\([a-z_]*\)` | \(counter\|gauge\|histogram\) |.*/\1 \2/p' docs/metrics.md |
    sort >"$tmp/of.doc"
if diff "$tmp/of.doc" "$tmp/of.page" >"$tmp/diff"; then
    ok 'docs/metrics.md has every metric, and no other'
else
    not_ok 'docs/metrics.md has every metric, and no other' "$(cat "$tmp/diff")"
fi
# name label, of each: those on the page are in the book.
awk '/^#/ { next }
     { name = $0; sub(/[{ ].*/, "", name); rest = $0; sub(/^[^{]*/, "", rest)
       if (rest !~ /^{/) next
       while (match(rest, /[{,][a-z_]+="/)) {
           label = substr(rest, RSTART + 1, RLENGTH - 3)
           if (label == "le") sub(/_bucket$/, "", name)
           else { base = name; sub(/_(bucket|sum|count)$/, "", base); print base, label }
           rest = substr(rest, RSTART + RLENGTH) } }' "$tmp/page" | sort -u >"$tmp/labels.page"
sed -n 's/^| `\([a-z_]*\)` | [a-z]* | \([^|]*\) |.*/\1 \2/p' docs/metrics.md |
    awk '{ gsub(/[`,]/, " "); for (i = 2; i <= NF; i++) print $1, $i }' | sort -u >"$tmp/labels.doc"
if comm -23 "$tmp/labels.page" "$tmp/labels.doc" | grep . >"$tmp/diff"; then
    not_ok 'and every label' "$(cat "$tmp/diff")"
else
    ok 'and every label'
fi
# Rules and dashboards use what there is.
{ cat "$rules" examples/grafana/tollgate.json; } | grep -oE '\b(tollgate|admission)_[a-z_]+' |
    sed -E 's/_(bucket|sum|count)$//' | sort -u >"$tmp/used"
cut -d ' ' -f 1 "$tmp/of.page" | sort -u >"$tmp/names"
if comm -23 "$tmp/used" "$tmp/names" | grep . >"$tmp/diff"; then
    not_ok 'alerts and the dashboard use metrics that exist' "$(cat "$tmp/diff")"
else
    ok 'alerts and the dashboard use metrics that exist'
fi

# What the dashboard asks can be asked: as rules, with its variables filled in.
{
    echo 'groups: [{name: dashboard, rules: ['
    sed -n 's/^ *"expr": "\(.*\)",*$/\1/p' examples/grafana/tollgate.json |
        sed -e 's/\\"/"/g' -e "s/'/''/g" -e 's/\$__rate_interval/1m/g' -e 's/\$instance/.*/g' |
        awk '{ printf "  {record: \"panel:%d\", expr: '"'%s'"'},\n", NR, $0 }'
    echo ']}]'
} >"$tmp/dashboard.rules.yml"
passes 'what the dashboard asks can be asked' promtool check rules "$tmp/dashboard.rules.yml"
grep -q ' [3-9][0-9] rules found' "$tmp/out" && ok 'by every panel' ||
    not_ok 'by every panel' "$(cat "$tmp/out")"

# Each alert says where to read on.
sed -n 's/^ *- alert: //p' "$rules" | sort >"$tmp/alerts.rules"
sed -n 's/^#* *\(Tollgate[A-Za-z]*\)$/\1/p' docs/operations.md | sort >"$tmp/alerts.doc"
if diff "$tmp/alerts.rules" "$tmp/alerts.doc" >"$tmp/diff"; then
    ok 'docs/operations.md has each alert'
else
    not_ok 'docs/operations.md has each alert' "$(cat "$tmp/diff")"
fi
sed -n 's/.*runbook: docs\/operations.md#//p' "$rules" | sort >"$tmp/anchors"
tr 'A-Z' 'a-z' <"$tmp/alerts.rules" | sort | cmp -s - "$tmp/anchors" &&
    ok 'under its anchor' || not_ok 'under its anchor' "$(diff "$tmp/alerts.rules" "$tmp/anchors")"

# ---- A real Prometheus ----

# The same rules, without the patience.
sed 's/^\( *for:\) .*/\1 0s/' "$rules" >"$tmp/impatient.rules.yml"
cat >"$tmp/prometheus.yml" <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [impatient.rules.yml]
scrape_configs:
  - job_name: tollgate
    static_configs: [{targets: ["$probe"]}]
END
prometheus --config.file="$tmp/prometheus.yml" --storage.tsdb.path="$tmp/data" \
    --web.listen-address=127.0.0.1:0 2>"$tmp/prometheus.out" &
pids="$pids $!"
until_true grep -q 'msg="Listening on"' "$tmp/prometheus.out"
server=$(sed -n 's/.*msg="Listening on" address=\([0-9.:]*\).*/\1/p' "$tmp/prometheus.out")

# asked QUERY WORDS: the answer to a query has these words.
asked() {
    curl -sS -G --data-urlencode "query=$1" "http://$server/api/v1/query" >"$tmp/answer" 2>&1 &&
        grep -qF -e "$2" "$tmp/answer"
}
answers() {
    if until_true asked "$2" "$3"; then
        ok "$1"
    else
        not_ok "$1" "$(cat "$tmp/answer")" "$(tail -n 5 "$tmp/prometheus.out")"
    fi
}
answers 'Prometheus scrapes it' 'up{job="tollgate"}' ',"1"]'
answers 'and has what was counted' 'tollgate_requests_total{tenant="watched",code="200"}' ',"3"]'
answers 'histograms can be asked' \
    'histogram_quantile(0.5, tollgate_ttft_seconds_bucket{model="small"}) > 0' '"model":"small"'

firing() {
    call tg-watched-0001 scarce >"$tmp/status"
    curl -sS "http://$server/api/v1/alerts" >"$tmp/alerts" 2>&1 &&
        tr '{' '\n' <"$tmp/alerts" | grep -q '"alertname":"TollgateHighRejectionRate"' &&
        grep -q '"state":"firing"' "$tmp/alerts"
}
if until_true firing; then
    ok 'D14 an alert fires when calls are refused for want of capacity'
else
    not_ok 'D14 an alert fires when calls are refused for want of capacity' "$(cat "$tmp/alerts")"
fi

finish
