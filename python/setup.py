"""setup.py - the wheel has a shared library in it and works with every Python: only the platform is in its name."""

import os

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class PlatformWheel(bdist_wheel):
    """`py3-none-PLATFORM`; tools/wheel finds out which platform and says it in TOLLGATE_PLATFORM."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", os.environ["TOLLGATE_PLATFORM"]


class PlatformDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(distclass=PlatformDistribution, cmdclass={"bdist_wheel": PlatformWheel})
