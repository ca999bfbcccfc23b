#!/bin/sh
# schemas.sh - files that are written for other programs are what those programs take: docs/openapi.yaml
# is OpenAPI, the manifests are Kubernetes', and the image has the libraries that the program loads.
#
# TOLLGATE is the program, VALIDATORS the folder with the validators of requirements.txt.
set -u
. "$(dirname "$0")/../lib/tap"

python=${VALIDATORS:-build/validators}/bin/python

# refuses NAME COMMAND...: that a validator sees a mistake; one that is content with everything proves nothing.
refuses() {
    name=$1
    shift
    if said=$("$@" 2>&1); then not_ok "$name" "$said"; else ok "$name"; fi
}

if [ -x "$python" ]; then
    check 'D10 docs/openapi.yaml is valid OpenAPI' \
        "$python" -m openapi_spec_validator --validation-errors all docs/openapi.yaml
    # The mistake that it had: a comma ends a plain text inside of braces, and the rest becomes a key.
    sed 's/description: "\(The amount, including top-ups[^"]*\)"/description: \1/' \
        docs/openapi.yaml >"$tmp/openapi.yaml"
    refuses 'D10 a description that a comma cuts is seen' \
        "$python" -m openapi_spec_validator "$tmp/openapi.yaml"

    for manifest in examples/kubernetes/*.yaml; do
        check "$manifest is what the API of Kubernetes takes" \
            "$python" -m kubernetes_validate --strict "$manifest"
    done
    sed 's/readinessProbe:/readynessProbe:/' examples/kubernetes/tollgate.yaml >"$tmp/manifest.yaml"
    refuses 'a field that Kubernetes does not have is seen' \
        "$python" -m kubernetes_validate --strict "$tmp/manifest.yaml"
else
    skip 'D10 docs/openapi.yaml is valid OpenAPI' 'no validators here; make test installs them'
    skip 'the manifests are what the API of Kubernetes takes' 'likewise'
fi

if command -v dpkg >/dev/null; then
    tools/image-packages "$TOLLGATE" >"$tmp/want"
    sed -n '/apt-get install/,/rm -rf/s/^    \([a-z0-9+.-]*\) \\$/\1/p' examples/kubernetes/Dockerfile \
        >"$tmp/got"
    check 'the program is linked with something' test "$(wc -l <"$tmp/want")" -ge 10
    same_files 'D11 the image has the libraries that the program loads, and no others' "$tmp/want" "$tmp/got"
else
    skip 'D11 the image has the libraries that the program loads' 'no packages of Debian here'
fi
finish
