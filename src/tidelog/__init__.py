"""tidelog: a Datalog engine whose conclusions stay true while facts and rules change."""

from tidelog.errors import (
    ArityError,
    BrokenError,
    ConversionError,
    CrossProductWarning,
    DataError,
    LimitError,
    MissingPackageError,
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
    "ConversionError",
    "CrossProductWarning",
    "DataError",
    "KnowledgeBase",
    "LimitError",
    "Literal",
    "MissingPackageError",
    "ParseError",
    "StorageError",
    "StorageWarning",
    "StratificationError",
    "TidelogError",
    "UnknownRuleError",
    "UnsafeRuleError",
]


def __getattr__(name: str) -> object:
    """The engine is loaded at its first use, which keeps `import tidelog` fast."""
    if name in ("Change", "KnowledgeBase"):
        from tidelog.extras import needing

        with needing("the engine"):
            if name == "Change":
                from tidelog.facts.results import Change

                return Change
            from tidelog.api.knowledge_base import KnowledgeBase

            return KnowledgeBase
    raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
