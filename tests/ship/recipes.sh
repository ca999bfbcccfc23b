#!/bin/sh
# recipes.sh - docs/recipes.md with the real thing: LiteLLM's proxy, Envoy, and Caddy and a client of grpc-go where Go
# has built them, ask Tollgate.
#
# TOLLGATE is the program, RECIPES the folder with Python, what comes from PyPI, and our wheel; CADDY and GRPC_GO the programs.
# nginx is tested by tests/e2e/admit_nginx.mjs.
set -u
. "$(dirname "$0")/../lib/tap"

python=${RECIPES:-build/recipes}/venv/bin/python
PYTHONPATH=$(dirname "$0")/recipes
export PYTHONPATH
check 'there is LiteLLM' "$python" -c 'import litellm, tollgate'
"$python" -B tests/python/tap.py test_envoy test_envoy_authz test_caddy test_grpc_go test_litellm >"$tmp/tap" 2>"$tmp/said"
status=$?
sed -n 's/^ok [0-9]* - /ok - /p; s/^not ok [0-9]* - /not ok - /p; /^#/p' "$tmp/tap"
tests=$((tests + $(grep -c '^\(not \)\?ok ' "$tmp/tap")))
failures=$((failures + $(grep -c '^not ok ' "$tmp/tap")))
if [ $status -eq 0 ]; then
    ok 'the tests ended well'
else
    not_ok 'the tests ended well' "status $status" "$(tail -n 40 "$tmp/said")"
fi
finish
