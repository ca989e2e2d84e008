"""Facts and update streams, in and out: CSV, TSV, Parquet, JSON Lines, N-Triples, Turtle, `.dlog` and DataFrames.

Knows: files, tables, and columns of values. Must not know: term numbers, rules, reasoning.
"""

from tidelog.formats.batch import FactBatch, values_of
from tidelog.formats.folder import WRITE_FORMATS, read_facts, read_file, total_bytes, write_facts, write_folder
from tidelog.formats.order import sort_key, sorted_columns, sorted_rows
from tidelog.formats.tables import columns_of
from tidelog.formats.updates import Unread, Update, change_to_json, open_updates, read_updates

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
