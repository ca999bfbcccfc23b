#!/bin/sh
# release.sh - the list of what the program is made of is complete, and checksums are signed and can be verified.
#
# TOLLGATE is the program. The key that signs is made here.
set -u
. "$(dirname "$0")/../lib/tap"

mkdir "$tmp/dist"
check 'the list is written' sh -c 'tools/sbom "$1" >"$2"' - "$TOLLGATE" "$tmp/dist/spdx.json"
# Every package that the image has is in it, and what is compiled in.
tools/image-packages "$TOLLGATE" >"$tmp/want"
printf '%s\n' libjs-chart.js libxxhash-dev node-llhttp tollgate >>"$tmp/want"
python3 - "$tmp/dist/spdx.json" >"$tmp/got" <<'END'
import json, re, sys
document = json.load(open(sys.argv[1]))
assert document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0"
ids = [p["SPDXID"] for p in document["packages"]]
assert len(set(ids)) == len(ids) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", i) for i in ids)
related = {r["relatedSpdxElement"] for r in document["relationships"]}
assert related == set(ids), related ^ set(ids)
for package in document["packages"]:
    assert package["versionInfo"] and package["externalRefs"][0]["referenceLocator"].startswith("pkg:")
    print(package["name"])
END
same 'it is SPDX 2.3, and everything in it is related to the program' 0 $?
LC_ALL=C sort -u "$tmp/want" >"$tmp/a"
LC_ALL=C sort -u "$tmp/got" >"$tmp/b"
same_files 'it has every package, and no other' "$tmp/a" "$tmp/b"

GNUPGHOME=$tmp/gpg
export GNUPGHOME
mkdir -m 700 "$GNUPGHOME"
check 'a key is made' gpg --batch --quiet --passphrase '' --quick-generate-key 'Test <test@tollgate.example>' ed25519 sign
check 'the source archive is made' tools/dist "$tmp/dist"
check 'checksums are signed' env TOLLGATE_SIGN_KEY=test@tollgate.example tools/sign "$tmp/dist"
check 'the signature is good' gpg --verify "$tmp/dist/SHA256SUMS.asc" "$tmp/dist/SHA256SUMS"
check 'and the files are what was signed' sh -c 'cd "$1" && sha256sum --check --strict SHA256SUMS' - "$tmp/dist"
echo >>"$tmp/dist/spdx.json"
check 'a file that was changed is seen' sh -c 'cd "$1" && ! sha256sum --check --status SHA256SUMS' - "$tmp/dist"
sed -i 's/^./0/' "$tmp/dist/SHA256SUMS"
check 'and so are checksums that were' sh -c '! gpg --verify "$1.asc" "$1"' - "$tmp/dist/SHA256SUMS"
gpgconf --kill all
finish
