"""tidelog: a Datalog engine whose conclusions stay true while facts and rules change."""

from importlib import import_module

from tidelog.errors import (
    ArityError,
    BrokenError,
    CompilationError,
    ConstraintError,
    ConversionError,
    CrossProductWarning,
    DataError,
    EvaluationError,
    LatticeError,
    LimitError,
    MissingPackageError,
    ModuleError,
    ParseError,
    ServerError,
    StorageError,
    StorageWarning,
    StratificationError,
    SubscriptionWarning,
    TidelogError,
    UnfitError,
    UnknownPredicateWarning,
    UnknownRuleError,
    UnsafeRuleError,
)
from tidelog.values import IRI, Literal, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tidelog.api.knowledge_base import KnowledgeBase
    from tidelog.api.programs import read_program
    from tidelog.client.async_connection import connect_async
    from tidelog.client.connection import connect
    from tidelog.engine.modules.plugin import Dataset, Module
    from tidelog.facts.reading import Facts
    from tidelog.facts.results import Answers, Change
    from tidelog.language.functions.registered import Lattice, Monotone
    from tidelog.proofs.proof import Proof

    __version__: str

__all__ = [
    "IRI",
    "Answers",
    "ArityError",
    "BrokenError",
    "Change",
    "CompilationError",
    "ConstraintError",
    "ConversionError",
    "CrossProductWarning",
    "DataError",
    "Dataset",
    "EvaluationError",
    "Facts",
    "KnowledgeBase",
    "Lattice",
    "LatticeError",
    "LimitError",
    "Literal",
    "MissingPackageError",
    "Module",
    "ModuleError",
    "Monotone",
    "ParseError",
    "Proof",
    "Record",
    "ServerError",
    "StorageError",
    "StorageWarning",
    "StratificationError",
    "SubscriptionWarning",
    "TidelogError",
    "UnfitError",
    "UnknownPredicateWarning",
    "UnknownRuleError",
    "UnsafeRuleError",
    "connect",
    "connect_async",
    "read_program",
]


# Where the names are that bring Numba and Arrow with them.
_LAZY = {
    "Answers": "tidelog.facts.results",
    "Change": "tidelog.facts.results",
    "Dataset": "tidelog.engine.modules.plugin",
    "Facts": "tidelog.facts.reading",
    "KnowledgeBase": "tidelog.api.knowledge_base",
    "Lattice": "tidelog.language.functions.registered",
    "Module": "tidelog.engine.modules.plugin",
    "Monotone": "tidelog.language.functions.registered",
    "Proof": "tidelog.proofs.proof",
    "connect": "tidelog.client.connection",
    "connect_async": "tidelog.client.async_connection",
    "read_program": "tidelog.api.programs",
}


def __dir__() -> list[str]:
    """All names, also those that are loaded at their first use, for completion."""
    return sorted({*globals(), *__all__, "__version__"})


def __getattr__(name: str) -> object:
    """The engine is loaded at its first use, which keeps `import tidelog` fast."""
    if name == "__version__":
        from importlib.metadata import version

        return version("tidelog")
    if name in _LAZY:
        from tidelog.extras import needing

        with needing("the engine"):
            return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
