"""What holds for all tests: no deadlines, since a first call may compile."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("tidelog", deadline=None)
settings.load_profile("tidelog")
