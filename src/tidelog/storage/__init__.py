"""Knowledge bases on disk: snapshots, the journal of updates since, and the lock (see docs/reference/storage.md).

Knows: folders and files, and images of knowledge bases as arrays and plain values (`engine.image`). Must not know: how
an engine is made from an image (`engine.imaging`), or what an update does.

- `home`: the folder that holds a snapshot and its journal, and which of them count;
- `snapshot_files`: an image as Parquet and JSON files in a folder;
- `journal`: the append-only log of updates since a snapshot, each as JSON;
- `checked_json`: JSON that is read back, and the names and rules in it;
- `folder_lock`: one writer at a time; `durable_files`: files that survive a crash, and that are ours alone.
"""
