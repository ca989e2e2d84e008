"""Tables of a TOML configuration, read strictly: whatever is misspelt or makes no sense is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.errors import DataError

_BOOLEANS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


def boolean(where: str, name: str, value: object) -> bool:
    """An option that is on or off. Anything else is refused: taken for off, it might switch off a protection."""
    found = value if isinstance(value, bool) else _BOOLEANS.get(str(value).strip().lower())
    if found is None:
        raise DataError(f"{where}: `{name}` is true or false (or yes, no, on, off, 1, 0), not {value!r:.60}")
    return found


class ConfigTable:
    """Looks values up in a table, and says where a value is missing or wrong."""

    def __init__(self, where: str, table: Mapping[str, Any], known: set[str]) -> None:
        self._where = where
        self._table = table
        unknown = sorted(set(table) - known)
        if unknown:
            raise DataError(f"{where}: `{unknown[0]}` is not known; there are {', '.join(sorted(known))}")

    def text(self, name: str) -> str:
        value = self._table.get(name)
        if not isinstance(value, str):
            raise DataError(f'{self._where}: `{name}` is missing or no text; write {name} = "…"')
        return value

    def text_or_none(self, name: str) -> str | None:
        return self.text(name) if name in self._table else None

    def one_of(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self._table.get(name, default)
        if value not in choices:
            raise DataError(f"{self._where}: `{name}` is one of {', '.join(choices)}, not {value!r}")
        return str(value)

    def number(self, name: str) -> int | None:
        value = self._table.get(name)
        if value is not None and (type(value) is not int or value < 1):
            raise DataError(f"{self._where}: `{name}` is a number above 0, not {value!r}")
        return value

    def table(self, name: str) -> dict[str, Any]:
        value = self._table.get(name, {})
        if not isinstance(value, dict):
            raise DataError(f"{self._where}: `{name}` is a table; begin it with [{name}]")
        return dict(value)
