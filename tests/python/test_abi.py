"""test_abi.py - what Python believes of the header is what a C compiler makes of it."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import tollgate
from tollgate._native import ffi, lib

HEADER = Path("include/tollgate.h").read_text()


class Abi(unittest.TestCase):
    def test_structs_lie_as_c_lays_them(self) -> None:
        names = [name for name in ffi.list_types()[1] if name.startswith("tg_")]
        lines, want = [], []
        for name in sorted(names):
            kind = ffi.typeof(f"struct {name}")
            try:
                ffi.sizeof(kind)
            except (ffi.error, ValueError):
                continue  # one that only the library looks into
            lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
            want.append(f"{name} {ffi.sizeof(kind)}")
            for field, _ in kind.fields:
                lines.append(f'printf("{name}.{field} %zu\\n", offsetof(struct {name}, {field}));')
                want.append(f"{name}.{field} {ffi.offsetof(kind, field)}")
        self.assertGreater(len(want), 300)
        source = f"#include <stdio.h>\n#include <tollgate.h>\nint main(void) {{ {' '.join(lines)} return 0; }}\n"
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "layout.c"
            file.write_text(source)
            program = Path(folder) / "layout"
            subprocess.run([os.environ.get("CC", "gcc"), "-Iinclude", "-o", program, file], check=True)
            said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        self.assertEqual(want, said.splitlines())

    def test_every_function_is_there(self) -> None:
        names = set(re.findall(r"^TG_API[^;]*?\b(tg_\w+)\(", HEADER, re.M))
        self.assertGreater(len(names), 90)
        for name in names:
            getattr(lib, name)

    def test_constants_are_those_of_the_header(self) -> None:
        from tollgate import gate, money  # noqa: PLC0415

        self.assertIn(f"#define TG_SCOPES_MAX {gate._SCOPES_MAX} ", HEADER)
        self.assertIn(f"#define TG_BUDGETS_MAX {money._BUDGETS_MAX} ", HEADER)
        self.assertIn(f"#define TG_MONEY_MAX INT64_C({money.MONEY_MAX})", HEADER)
        self.assertIn(f"#define TG_NUMBER_MAX INT64_C({tollgate.NUMBER_MAX})", HEADER)

    def test_versions_agree(self) -> None:
        self.assertEqual(tollgate.__version__, tollgate.version())
        self.assertIn(f'#define TG_VERSION "{tollgate.__version__}"', HEADER)
