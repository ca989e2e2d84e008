"""tidelog: a Datalog engine whose conclusions stay true while facts and rules change."""

from tidelog.errors import (
    ArityError,
    BrokenError,
    CompilationError,
    ConversionError,
    CrossProductWarning,
    DataError,
    LimitError,
    ParseError,
    StorageError,
    StorageWarning,
    StratificationError,
    TidelogError,
    UnknownRuleError,
    UnsafeRuleError,
)
from tidelog.values import IRI, Literal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tidelog.api.knowledge_base import KnowledgeBase
    from tidelog.facts.results import Change

__all__ = [
    "IRI",
    "ArityError",
    "BrokenError",
    "Change",
    "CompilationError",
    "ConversionError",
    "CrossProductWarning",
    "DataError",
    "KnowledgeBase",
    "LimitError",
    "Literal",
    "ParseError",
    "StorageError",
    "StorageWarning",
    "StratificationError",
    "TidelogError",
    "UnknownRuleError",
    "UnsafeRuleError",
]


def __getattr__(name: str) -> object:
    """Numba and Arrow are loaded at the first use of the engine, which keeps `import tidelog` fast."""
    if name == "KnowledgeBase":
        from tidelog.api.knowledge_base import KnowledgeBase

        return KnowledgeBase
    if name == "Change":
        from tidelog.facts.results import Change

        return Change
    raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
