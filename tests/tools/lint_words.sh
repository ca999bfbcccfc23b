#!/bin/sh
# lint_words.sh - tools/lint-words finds half sentences, metaphors, common static names, private headers.
set -u
. "$(dirname "$0")/../lib/tap"

lint=$PWD/tools/lint-words
cd "$tmp" || exit 1
mkdir -p src/lib/core src/lib/limit tests/unit

# judge NAME STATUS WORDS...: of all files, in the mode $mode.
mode=error
judge() {
    name=$1 wanted=$2
    shift 2
    LINT_WORDS=$mode "$lint" $(find src tests -name '*.[ch]' | LC_ALL=C sort) >out 2>&1
    got=$?
    if [ $got -ne "$wanted" ]; then
        not_ok "$name" "status $got instead of $wanted" "$(cat out)"
        return
    fi
    for words; do
        if ! grep -qF -e "$words" out; then
            not_ok "$name" "nothing says: $words" "$(cat out)"
            return
        fi
    done
    ok "$name"
}

cat >src/lib/core/a.c <<'END'
/* a.c - has nothing wrong. */
#include "lib/core/a_internal.h"
int let_inside, shelfish, words, propertie_s; /* office, thatch and ash are no such words */
const char *text = "/* of a string */ clerk"; /* In a string, all is fine:
 * of, that, as. */
static int find(void);
END
judge 'nothing is wrong' 0
if [ -s out ]; then not_ok 'and nothing is said' "$(cat out)"; else ok 'and nothing is said'; fi

cat >src/lib/core/b.c <<'END'
/* b.c - half sentences. */
int a; /* of the call */
int b; /* That are held */ int c; /* as
 * it is */
END
judge 'half sentences' 1 'src/lib/core/b.c:2: comment: begins with "of"' \
    'b.c:3: comment: begins with "That"' 'b.c:3: comment: begins with "as"' '3 comments, 0 names'
mode=count
judge 'they are counted, to begin with' 0 'warning: 3 comments, 0 names, 0 static names, 0 private'
mode=list
judge 'or listed' 0 'b.c:2: comment'
mode=error
rm src/lib/core/b.c

cat >src/lib/core/http_purse.c <<'END'
/* http_purse.c - metaphors. */
int call_let_go, let_in_now, admit_ties, remote_words, clerk, reckon;
END
judge 'metaphors' 1 'name: http_purse' 'name: call_let_go' 'name: let_in_now' 'name: admit_ties' \
    'name: remote_words' 'name: clerk' 'name: reckon' ' 7 names'
rm src/lib/core/http_purse.c

echo 'static void who_is_let_in_does_not_give_up(void);' >tests/unit/test_a.c
judge 'names of tests are sentences' 0
rm tests/unit/test_a.c

for file in b c; do
    printf '/* %s.c - one more. */\nstatic int find(void)\n{\n}\n' $file >src/lib/core/$file.c
done
judge 'a static name in three files' 0
printf '/* d.c - the fourth. */\nstatic const struct long_name *\nfind(void)\n{\n}\n' >src/lib/limit/d.c
judge 'in four' 1 'static: find() stands in 4 files: a.c b.c c.c d.c'
rm src/lib/core/[bc].c src/lib/limit/d.c

echo '/* a_parts.h - parts. */' >src/lib/core/a_parts.h
printf '/* z.h - z.\n *\n * Private to this room. */\n' >src/lib/core/z.h
printf '/* d.c - d. */\n#include "lib/core/a_internal.h"\n' >src/lib/limit/d.c
judge 'private headers' 1 'a_parts.h:1: private' 'z.h:3: private' \
    'd.c:2: private: lib/core/a_internal.h is private to its room' ' 3 private'

finish
