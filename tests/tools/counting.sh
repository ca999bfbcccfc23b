#!/bin/sh
# counting.sh - what tools/walk counts, and what tools/mutants leaves alone.
set -u
. "$(dirname "$0")/../lib/tap"

if ! command -v python3 >/dev/null; then
    skip 'tools/walk and tools/mutants' 'there is no python3'
    finish
fi

# holds NAME SCRIPT: the script's asserts hold; `load` makes a module of a tool.
holds() {
    cat >"$tmp/script.py" <<END
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
def load(name):
    loader = importlib.machinery.SourceFileLoader(name, "tools/" + name)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module
$2
END
    if python3 "$tmp/script.py" >"$tmp/said" 2>&1; then ok "$1"; else not_ok "$1" "$(cat "$tmp/said")"; fi
}

holds 'a walk counts functions, files, and changes of both file and room' '
walk = load("walk")
class Names:
    known = {1: ("a", "src/x/a.c"), 2: ("b", "src/x/b.c"), 3: ("c", "src/y/c.c"), 4: ("d", "../d.h")}
    def learn(self, addresses): pass
    def function(self, address): return self.known[address]
def enter(address, depth): return (address, 7, depth, False)
def leave(address, depth): return (address, 7, depth, True)
trace = [enter(1, 1), enter(2, 2), enter(2, 3), leave(2, 3), enter(3, 3), leave(3, 3), leave(2, 2)]
trace += [enter(4, 2), leave(4, 2), leave(1, 1)]
# calls, functions, files, own files, rooms, switches of files, modules and rooms, depth
assert walk.count(trace, Names()) == [5, 4, 4, 3, 3, 3, 2, 2, 3], walk.count(trace, Names())'

holds 'ticks that look the same when nobody calls are left out' '
walk = load("walk")
def call(*addresses):
    n = len(addresses)
    entries = [(a, 7, i, False) for i, a in enumerate(addresses, 5)]
    return entries + [(a, 7, i, True) for i, a in reversed(list(enumerate(addresses, 5)))]
idle = call(10, 11) + call(10, 12)
busy = call(10, 11, 12) + call(20, 21) + call(10, 30) + call(10)
assert walk.without_ticks(busy, idle) == call(20, 21) + call(10, 30)'

holds 'a comment leaves lines and columns as they are' '
mutants = load("mutants")
text = "int a; /* one\n two */ int b; char c = \"/* no */\"[0]; char d = 34; /* x */\nint e;\n"
plain = mutants.without_comments(text)
assert plain == "int a;\n        int b; char c = \"/* no */\"[0]; char d = 34;\nint e;\n", plain'

holds 'asserts, logs, directives and text are protected' '
mutants = load("mutants")
lines = """#include <a.h>
#define N 3
#if N > 2
_Static_assert(N > 2, "it is");
x = x + 1;
assert(x > 0 &&
       f(x) > 1);
y = 2;
log_warn("a)b", x + 1,
         y);
    "%d is text", x + 1);
z = 3;""".split("\n")
assert mutants.protected_lines(lines) == {1, 3, 4, 6, 7, 9, 10, 11}, mutants.protected_lines(lines)'

finish
