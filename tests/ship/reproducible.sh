#!/bin/sh
# reproducible.sh - what is built depends on the source alone: two builds in two folders give the same bytes.
#
# TOLLGATE is any program of this tree. The source is that of the last commit; no compiler cache is used. The
# whole takes two builds, so REPRODUCIBLE=lib builds the library alone.
set -u
. "$(dirname "$0")/../lib/tap"

top=$PWD
targets=all files='tollgate libtollgate.a'
[ "${REPRODUCIBLE:-}" != lib ] || { targets=lib files=libtollgate.a; }
version=$(sed -n 's/^#define TG_VERSION "\(.*\)"/\1/p' include/tollgate.h)
for folder in one another/folder; do
    check "the source archive of $folder" tools/dist "$tmp/$folder"
    tar -xzf "$tmp/$folder/tollgate-$version.tar.gz" -C "$tmp/$folder"
    # shellcheck disable=SC2086 # several targets
    check "a build in $folder" env CCACHE_DISABLE=1 TOLLGATE_DEPS=skip make -s -C "$tmp/$folder/tollgate-$version" \
        VARIANT=ship $targets
done
cd "$top" || exit 1
same_build() {
    check "$1 is the same" cmp "$tmp/one/$2" "$tmp/another/folder/$2"
}
same_build 'the source archive' "tollgate-$version.tar.gz"
for file in $files "libtollgate.so.$version"; do
    same_build "$file" "tollgate-$version/build/ship/$file"
done
if [ "$targets" = all ]; then
    export SOURCE_DATE_EPOCH=1700000000
    for folder in one another/folder; do
        tree=$tmp/$folder/tollgate-$version
        check "the image of $folder" "$tree/tools/image" "$tree/build/ship/tollgate" "$tmp/$folder/image"
        check "the list of $folder" sh -c '"$1/tools/sbom" "$1/build/ship/tollgate" >"$2"' - "$tree" "$tmp/$folder/spdx.json"
    done
    same_build 'the image' "image/tollgate-$version.oci.tar"
    same_build 'the list of what is in it' spdx.json
fi
finish
