"""The wheel: for this platform if it has compiled kernels, as `make wheel` builds it, and for any other without them.

`TIDELOG_KERNELS` names the folder that the compiled kernels are in.
"""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

KERNELS = os.environ.get("TIDELOG_KERNELS", "")


class BuildWithKernels(build_py):
    def run(self) -> None:
        super().run()
        target = Path(self.build_lib) / "tidelog" / "kernels"
        self.mkpath(str(target))
        for library in Path(KERNELS).glob("*.so"):
            self.copy_file(str(library), str(target / library.name))


class WheelOfThisPlatform(bdist_wheel):
    """Kernels use the stable ABI: one wheel serves every version of Python."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(cmdclass={"build_py": BuildWithKernels, "bdist_wheel": WheelOfThisPlatform} if KERNELS else {})
