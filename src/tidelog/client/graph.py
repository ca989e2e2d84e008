"""The dependency graph of a server, which draws it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, TypeVar

from tidelog.client import exchange
from tidelog.client.exchange import Call
from tidelog.client.refusals import Remote

Drawn = TypeVar("Drawn")


class RemoteGraph(Remote, Generic[Drawn]):
    """The dependency graph of a server. `Drawn` is a text, or an awaitable one."""

    instead: ClassVar[Mapping[str, str]] = {
        "plan": "`what_if(add_rules=…, remove_rules=…)` says what a change of rules would do",
        "hyper_nodes": '`draw("json")` has them',
        "edges": '`draw("json")` has them',
        "to_dict": '`draw("json")` has it as a text',
    }

    def __init__(self, send: Callable[[Call[str]], Drawn]) -> None:
        self._send = send

    def draw(self, format: str = "svg") -> Drawn:
        """The graph as `svg`, `dot`, `mermaid` or `json`."""
        return self._send(exchange.text("/graph", format=format))

    __call__ = draw
