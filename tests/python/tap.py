"""tap.py - runs the tests beside it and prints a line of TAP for each: `python tap.py [module...]`."""

import sys
import time
import traceback
import unittest
from pathlib import Path
from types import TracebackType

Error = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


class Tap(unittest.TestResult):
    """Each test is a line; what explains a failure follows it in lines that begin with #."""

    count = 0

    def say(self, word: str, test: unittest.TestCase, more: str = "") -> None:
        self.count += 1
        print(f"{word} {self.count} - {test.id()}{more}", flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self.say("ok", test)

    def addFailure(self, test: unittest.TestCase, err: Error) -> None:  # noqa: N802
        super().addFailure(test, err)
        self.say("not ok", test)
        print("# " + "".join(traceback.format_exception(err[1])).rstrip().replace("\n", "\n# "), flush=True)

    addError = addFailure  # noqa: N815

    def addSubTest(  # noqa: N802
        self, test: unittest.TestCase, subtest: unittest.TestCase, err: Error | None
    ) -> None:
        if err is not None:
            self.addFailure(subtest, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self.say("ok", test, f" # SKIP {reason}")


def main() -> int:
    here = Path(__file__).parent
    sys.path.insert(0, str(here))
    modules = sys.argv[1:] or sorted(path.stem for path in here.glob("test_*.py"))
    suite = unittest.defaultTestLoader.loadTestsFromNames(modules)
    result = Tap()
    began = time.monotonic()
    suite.run(result)
    print(f"1..{result.count}\n# {time.monotonic() - began:.1f} s", flush=True)
    return 0 if result.wasSuccessful() and result.count else 1


if __name__ == "__main__":
    sys.exit(main())
