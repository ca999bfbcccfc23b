#!/bin/sh
# regret.sh - `tollgate regret`: the published numbers, the shapes of its JSON, its pictures, and
# what it says when it is asked wrongly.
set -u
. "$(dirname "$0")/../lib/tap"

# field NAME: its numbers in $tmp/out, rows and then means, in order, to two digits.
field() {
    tr '{' '\n' <"$tmp/out" | sed -n 's/.*"'"$1"'":\([-0-9.e+]*\)[,}].*/\1/p' |
        awk '{ printf "%s%.2f", (NR > 1 ? " " : ""), $1 } END { print "" }'
}

# ---- The published numbers ----

run regret --suite rho --json
expect 'rho runs' 0
same 'rho: marginal, and its mean' '40.00 40.00 40.50 41.50 32.50 38.90' "$(field marginal)"
same 'rho: joint, and its mean' '0.00 0.70 1.01 1.16 65.00 13.57' "$(field joint)"
same 'rho: adaptive, and its mean' '0.00 0.70 1.01 1.16 32.50 7.07' "$(field adaptive)"
same 'rho: hindsight, and its mean' '0.00 0.70 1.01 1.16 32.50 7.07' "$(field hindsight)"
number='[-0-9.e+]*'
shape='{"rho":N,"marginal":N,"joint":N,"adaptive":N,"online":N,"hindsight":N}'
want="{\"rows\":[$shape,$shape,$shape,$shape,$shape],\"mean\":${shape%%\"rho*}${shape#*N,}}"
same 'rho: the shape of its JSON' "$want" "$(sed "s/:$number\([,}]\)/:N\1/g" "$tmp/out")"
cp "$tmp/out" "$tmp/first"
run regret --json --seed 1 --seeds 20
same 'rho with its own seeds is what it is by default' "$(cat "$tmp/first")" "$(cat "$tmp/out")"
run regret --json --seed 2
[ "$status" -eq 0 ] && ! cmp -s "$tmp/first" "$tmp/out" && ok 'other seeds, other numbers' ||
    not_ok 'other seeds, other numbers'

run regret --suite hog --json
same 'hog: worlds' 'A B C' "$(grep -o '"world":"[A-Z]"' "$tmp/out" | cut -d'"' -f4 | tr '\n' ' ' | sed 's/ $//')"
same 'hog: marginal' '53.27 -0.35 35.82' "$(field marginal)"
same 'hog: two_axis' '53.27 -0.35 35.82' "$(field two_axis)"
same 'hog: three_axis' '1.93 -0.35 35.82' "$(field three_axis)"

run regret --suite adaptive --json
same 'adaptive: adaptive, with the means of A, B and C' \
    '0.00 0.70 1.01 1.16 32.50 10.00 10.02 9.72 8.59 17.50 19.90 25.16 28.72 30.09 32.50 1.95 7.07 11.17 27.27' \
    "$(field adaptive)"
cp "$tmp/out" "$tmp/first"
run regret --suite adaptive --json
same 'twice the same' "$(cat "$tmp/first")" "$(cat "$tmp/out")"

# ---- Drift ----

run regret --suite drift --seeds 1 --json --plot "$tmp/drift.svg"
expect 'drift runs' 0
[ -s "$tmp/err" ] && not_ok 'no progress when piped' "$(cat "$tmp/err")" || ok 'no progress when piped'
same 'drift: columns' \
    'rho=0 rho=0.5 rho=0.9 rho=0.99 rho=0.999 absorbing flip iid ar=0.99 ar=0.999 ar=0.9999 sine step' \
    "$(grep -o '"column":"[^"]*","set":"[^"]*","prior":"right"' "$tmp/out" | cut -d'"' -f4 | tr '\n' ' ' | sed 's/ $//')"
same 'drift: rows' 39 "$(grep -o '"column"' "$tmp/out" | wc -l | tr -d ' ')"
same 'drift: summaries' 12 "$(grep -o '"measure":"m[eanx]*"' "$tmp/out" | wc -l | tr -d ' ')"
same 'drift: without a prior there is no static and no adaptive' 13 \
    "$(grep -o '"prior":"none","greedy":[0-9.e+-]*,"static":null,"adaptive":null,"online":-*[0-9]' "$tmp/out" | wc -l | tr -d ' ')"

# ---- Text ----

run regret
expect 'text' 0
for words in 'Regret in percent of the fluid optimum; seeds 1 to 20.' 'marginal   joint  adaptive  online  hindsight' \
    'mean            38.90   13.57'; do
    grep -qF "$words" "$tmp/out" && ok "text: $words" || not_ok "text: $words" "$(cat "$tmp/out")"
done

# ---- Pictures ----

# Tags are closed in order, attributes are quoted, no bare & or <, one root.
well_formed='
function bad(why) { print FILENAME ": " why ": " tag; failed = 1; exit 1 }
{ text = text $0 "\n" }
END {
    if (failed) exit 1
    if (text !~ /^<\?xml [^>]*\?>\n<svg /) bad("no prolog and root")
    sub(/^<\?xml [^>]*\?>\n/, "", text)
    while (match(text, /<[^>]*>/)) {
        before = substr(text, 1, RSTART - 1)
        tag = substr(text, RSTART + 1, RLENGTH - 2)
        text = substr(text, RSTART + RLENGTH)
        if (depth == 0 && (roots > 0 || before ~ /[^ \n]/)) bad("outside of the root")
        gsub(/&(amp|lt|gt|quot);/, "", before)
        if (before ~ /[&>]/) bad("a bare & or > before")
        if (tag ~ /^\//) {
            if (depth == 0 || open[depth] != substr(tag, 2)) bad("closes what is not open")
            if (--depth == 0) roots++
            continue
        }
        name = tag
        sub(/[ \/].*/, "", name)
        rest = substr(tag, length(name) + 1)
        closed = sub(/\/$/, "", rest)
        gsub(/&(amp|lt|gt|quot);/, "", rest)
        gsub(/ [a-zA-Z][a-zA-Z0-9-]*="[^"<&]*"/, "", rest)
        if (name !~ /^[a-z]+$/ || rest !~ /^ *$/) bad("not an element")
        if (!closed) open[++depth] = name
    }
    if (depth != 0 || roots != 1 || text ~ /[^ \n]/) bad("not one whole root")
}'

# picture SUITE FILE LABELS...: it is XML, and shows these labels.
picture() {
    name="$1: the picture"
    file=$2
    shift 2
    if ! why=$(LC_ALL=C awk "$well_formed" "$file" 2>&1); then
        not_ok "$name" "$why"
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
    if grep -qiE '="?(nan|inf|-nan)' "$file"; then
        not_ok "$name" 'a number that is none'
        return
    fi
    ok "$name"
}

picture drift "$tmp/drift.svg" greedy static adaptive online rho=0.999 absorbing flip iid ar=0.9999 \
    sine step mean 'two-type, no prior' 'lognormal, prior wrong by 4x' 100.0 \
    'tollgate regret --suite drift --seed 1 --seeds 1'
run regret --plot "$tmp/rho.svg"
picture rho "$tmp/rho.svg" marginal joint adaptive online hindsight rho=-1 rho=-0.5 rho=0 rho=0.5 \
    rho=1 mean 65.0 38.9 13.6 '0' '20' '40' '60' '80 %'
run regret --suite hog --plot "$tmp/hog.svg"
picture hog "$tmp/hog.svg" three_axis 'world A' 'world C' 53.3 1.9 -0.4 35.8
run regret --suite adaptive --plot "$tmp/adaptive.svg"
picture adaptive "$tmp/adaptive.svg" static_oracle refine naive \
    'A: a large call is worth the 50 that is believed' 32.5 30.1

printf old >"$tmp/old.svg"
ln -s old.svg "$tmp/link.svg"
run regret --plot "$tmp/link.svg" --json
if cmp -s "$tmp/old.svg" "$tmp/rho.svg" && [ -L "$tmp/link.svg" ] && [ "$status" -eq 0 ]; then
    ok 'what is there is replaced, and a link stays one'
else
    not_ok 'what is there is replaced, and a link stays one' "$(ls -l "$tmp")"
fi
same 'nothing else is left behind' '' "$(ls "$tmp" | grep tmp)"
run regret --plot "$tmp/none/x.svg"
expect 'a folder that is not there' 1 "cannot write $tmp/none/x.svg: No such file"
[ ! -s "$tmp/out" ] && ok 'and no result' || not_ok 'and no result' "$(cat "$tmp/out")"
run regret --plot "$tmp"
expect 'a folder' 1 "cannot write $tmp: Is a directory"
if [ -w /dev/full ]; then
    run regret --plot /dev/full
    expect 'a full disk' 1 'cannot write /dev/full: No space left'
else
    skip 'a full disk' 'there is no /dev/full'
fi

# ---- Asked wrongly ----

run regret --suite sine
expect 'no such suite' 2 "there is no suite 'sine'; there are rho, adaptive, hog, drift, guard"
for bad in 0 -1 1.5 x '' 10001 99999999999999999999; do
    run regret --seeds "$bad"
    expect "--seeds '$bad'" 2 "--seeds is '$bad'; it must be a whole number from 1 to 10000"
done
for bad in 0 -1 x 9007199254740991 18446744073709551616; do
    run regret --seed "$bad"
    expect "--seed '$bad'" 2 "--seed is '$bad'; it must be a whole number from 1 to"
done
run regret rho
expect 'an operand' 2 "unexpected argument 'rho'"
run regret --plot
expect 'a plot without its file' 2 '--plot needs FILE.svg after it'
run regret --policy online
expect 'no such option' 2 'there is no option --policy' '--suite NAME, --json, --plot FILE.svg, --seed N, --seeds K'
if [ -w /dev/full ]; then
    "$TOLLGATE" regret --json >/dev/full 2>"$tmp/err"
    status=$?
    expect 'a result that is lost' 1 'cannot write the output: No space left'
else
    skip 'a result that is lost' 'there is no /dev/full'
fi
finish
