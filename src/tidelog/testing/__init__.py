"""Tests of rules: `*.test.dlog` files, which `tidelog test` and pytest run (see docs/reference/testing.md).

Knows: programs, knowledge bases, and what is expected of them. Must not know: how anything is evaluated.

- `rule_tests`: the files, read: tests, their facts, and their steps;
- `running`: a test from a fresh knowledge base to its failures;
- `report`: `tidelog test`; `pytest_plugin`: the same files as pytest collects them;
- `module_checks`: whether a module for `kb.add_module` does what the paper's definitions want.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tidelog.testing.module_checks import check_module

__all__ = ["check_module"]


def __getattr__(name: str) -> object:
    """The engine is loaded at its first use: pytest loads this folder in every run."""
    if name == "check_module":
        from tidelog.testing.module_checks import check_module

        return check_module
    raise AttributeError(f"module 'tidelog.testing' has no attribute {name!r}")
