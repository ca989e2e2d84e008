"""Tests of rules: `*.test.dlog` files, which `tidelog test` and pytest run (see docs/reference/testing.md).

Knows: programs, knowledge bases, and what is expected of them. Must not know: how anything is evaluated.

- `rule_tests`: the files, read: tests, their facts, and their steps;
- `running`: a test from a fresh knowledge base to its failures;
- `report`: `tidelog test`; `pytest_plugin`: the same files as pytest collects them.
"""
