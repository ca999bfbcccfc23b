#!/bin/sh
# compose.sh - the compose file: every file it mounts is there, and each is what its program takes.
#
# TOLLGATE is the program, VALIDATORS a folder with a Python that reads YAML.
set -u
. "$(dirname "$0")/../lib/tap"

at=examples/compose
python=${VALIDATORS:-build/validators}/bin/python
check 'the configuration is good' env TOLLGATE_STORE=redis://default:x@127.0.0.1:6379 "$TOLLGATE" check -c $at/tollgate.yaml
check 'Prometheus takes its file' sh -c '
    cp "$1/prometheus.yml" examples/prometheus/tollgate.rules.yml "$2/" && promtool check config "$2/prometheus.yml"' - $at "$tmp"
version=$(sed -n 's/^#define TG_VERSION "\(.*\)"/\1/p' include/tollgate.h)
check 'the image is of this version' grep -q "image: tollgate:$version\$" $at/compose.yaml
if [ -x "$python" ]; then
    "$python" - $at/compose.yaml >"$tmp/mounted" <<'END'
import sys, yaml
compose = yaml.safe_load(open(sys.argv[1]))
for service in compose["services"].values():
    assert "image" in service
    for volume in service.get("volumes", []):
        source, target = volume.split(":")[:2]
        assert target.startswith("/")
        if source.startswith("."):
            print(source)
        else:
            assert source in compose["volumes"], source
assert set(compose["services"]) == {"tollgate", "redis", "prometheus", "grafana"}
assert compose["services"]["tollgate"]["read_only"] is True
END
    same 'it is YAML, with four services' 0 $?
    check 'files are mounted' test "$(wc -l <"$tmp/mounted")" -ge 7
    while read -r file; do
        # The provider's key is yours to write.
        [ "$file" = ./openai.key ] || check "$file is there" test -e "$at/$file"
    done <"$tmp/mounted"
else
    skip 'it is YAML, with four services' 'no validators here; make test installs them'
fi
finish
