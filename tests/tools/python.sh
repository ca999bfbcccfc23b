#!/bin/sh
# python.sh - the Python package: formatted, typed, and tested as the wheel that others install.
#
# TOLLGATE is the program, PYTHON_TOOLS the folder with Python, its tools and the wheel (tools/test.mk).
# TOLLGATE_DECISIONS says how many decisions are compared with those of `tollgate replay`.
set -u
. "$(dirname "$0")/../lib/tap"

folder=${PYTHON_TOOLS:-build/python}
bin=$folder/venv/bin
if [ ! -e "$folder/installed" ]; then
    skip 'the Python package' 'no wheel here; make test makes it'
    finish
fi
check 'ruff finds nothing in the package' "$bin/ruff" check --no-cache python
check 'ruff finds nothing in its tests' "$bin/ruff" check --no-cache --config python/pyproject.toml tests/python
check 'nor in the recipes' "$bin/ruff" check --no-cache --config python/pyproject.toml tests/ship/recipes examples/litellm
check 'its layout is what ruff wants' "$bin/ruff" format --no-cache --check --config python/pyproject.toml python tests/python \
    tests/ship/recipes examples/litellm
tree=$folder/wheel/tree
check 'mypy --strict finds nothing in the package' "$bin/mypy" --cache-dir "$tmp/mypy" \
    --config-file python/pyproject.toml "$tree/tollgate"
check 'nor in its tests' env MYPYPATH="$tree" "$bin/mypy" --cache-dir "$tmp/mypy" --config-file python/pyproject.toml \
    tests/python

# A wheel has what the tree has, types included, and needs the C library alone.
"$bin/python" - "$folder"/wheel/*.whl >"$tmp/names" <<'END'
import sys
import zipfile
print("\n".join(zipfile.ZipFile(sys.argv[1]).namelist()))
END
for file in py.typed _abi.py admission_pb2.py admission_pb2.pyi wake.so; do
    check "the wheel has $file" grep -qx "tollgate/$file" "$tmp/names"
done
check 'and the licence' grep -q '/licenses/LICENSE$' "$tmp/names"
same 'its libraries need the C library alone' 'libc.so.6 libm.so.6' "$(objdump -p "$tree"/tollgate/*.so* |
    sed -n 's/^ *NEEDED *//p' | grep -v '^ld-linux' | sort -u | paste -sd ' ')"
# Other commands of README and docs/python.md are run by tests/python/test_docs.py.
"$bin/python" -W error -B tests/python/tap.py >"$tmp/tap" 2>"$tmp/said"
status=$?
sed -n 's/^ok [0-9]* - /ok - /p; s/^not ok [0-9]* - /not ok - /p; /^#/p' "$tmp/tap"
tests=$((tests + $(grep -c '^\(not \)\?ok ' "$tmp/tap")))
failures=$((failures + $(grep -c '^not ok ' "$tmp/tap")))
if [ $status -eq 0 ] && [ ! -s "$tmp/said" ]; then
    ok 'the tests ended well and said nothing else'
else
    not_ok 'the tests ended well and said nothing else' "status $status" "$(tail -n 40 "$tmp/said")"
fi
finish
