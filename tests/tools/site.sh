#!/bin/sh
# site.sh - the documentation as a site: no link leads nowhere, every page is in a menu and near the first.
#
# SITE_TOOLS is the folder with mkdocs. tools/site fails by itself if a promise does not hold; a copy of the
# tree with a broken link shows that it can.
set -u
. "$(dirname "$0")/../lib/tap"

python=${SITE_TOOLS:-build/site-tools}/bin/python
if [ ! -x "$python" ]; then
    skip 'the site is built without a warning' 'no mkdocs here; make test installs it'
    finish
fi
python=$(readlink -f "$(dirname "$python")")/python
check 'the site is built without a warning' "$python" tools/site "$tmp/site"
version=$(sed -n 's/^#define TG_VERSION "\(.*\)"/\1/p' include/tollgate.h)
page=$tmp/site/$version/index.html
check 'there is a picture on the first page' grep -q '<img [^>]*src="dashboard.png"' "$page"
check 'and it is there' test -s "$tmp/site/$version/dashboard.png"
check 'it can be searched' test -s "$tmp/site/$version/search/search_index.json"
check 'it has a version' grep -q "\"version\": \"$version\"" "$tmp/site/versions.json"
for part in Tutorials How-to Reference Explanation; do
    check "there is a part $part" grep -q "^ *$part\$" "$page"
done
check 'it loads nothing from elsewhere' sh -c '! grep -E "<(script|link|img)[^>]*(src|href)=\"?https?://" "$1"' - "$page"

mkdir "$tmp/tree"
for entry in *; do
    [ "$entry" = build ] || cp -r "$entry" "$tmp/tree/"
done
echo 'See [nothing](no-such-page.md).' >>"$tmp/tree/docs/keys.md"
if said=$("$python" "$tmp/tree/tools/site" "$tmp/broken" 2>&1); then
    not_ok 'a broken link is an error' "$said"
else
    check 'a broken link is an error, and named' sh -c 'echo "$1" | grep -q no-such-page' - "$said"
fi
finish
