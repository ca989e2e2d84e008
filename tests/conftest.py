"""What holds for all tests: no deadlines, since a first call may compile; what fails says how to see it again."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("tidelog", deadline=None, print_blob=True)
settings.load_profile("tidelog")
