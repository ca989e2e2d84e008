"""What holds for all tests: no deadlines, since a first call may compile."""

from __future__ import annotations

import os

from hypothesis import settings

# On a build machine the examples are the same every time: a change is judged by what it changes. Elsewhere they vary.
settings.register_profile("tidelog", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("tidelog")
