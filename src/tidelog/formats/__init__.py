"""Facts and update streams, in and out: CSV, TSV, Parquet, JSON Lines, N-Triples, Turtle, `.dlog` and DataFrames.

Knows: files, tables, and columns of values. Must not know: term numbers, rules, reasoning.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tidelog.formats.batch import FactBatch, values_of
    from tidelog.formats.columns.column_order import sorted_columns
    from tidelog.formats.columns.order import sort_key, sorted_rows
    from tidelog.formats.columns.tables import columns_of
    from tidelog.formats.files.folder import (
        WRITE_FORMATS,
        read_facts,
        read_file,
        total_bytes,
        write_facts,
        write_folder,
    )
    from tidelog.formats.files.updates import Unread, Update, change_to_json, open_updates, read_updates

__all__ = [
    "WRITE_FORMATS",
    "FactBatch",
    "Unread",
    "Update",
    "change_to_json",
    "columns_of",
    "open_updates",
    "read_facts",
    "read_file",
    "read_updates",
    "sort_key",
    "sorted_columns",
    "sorted_rows",
    "total_bytes",
    "values_of",
    "write_facts",
    "write_folder",
]

_MODULES = {
    "batch": ("FactBatch", "values_of"),
    "columns.column_order": ("sorted_columns",),
    "files.folder": ("WRITE_FORMATS", "read_facts", "read_file", "total_bytes", "write_facts", "write_folder"),
    "columns.order": ("sort_key", "sorted_rows"),
    "columns.tables": ("columns_of",),
    "files.updates": ("Unread", "Update", "change_to_json", "open_updates", "read_updates"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Most formats need Arrow, so that each is loaded with its first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'tidelog.formats' has no attribute {name!r}")
    from tidelog.extras import FILES, needing

    with needing(FILES):
        return getattr(import_module(f"tidelog.formats.{_MODULE_OF[name]}"), name)
