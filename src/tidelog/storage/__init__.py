"""Knowledge bases on disk: snapshots, the journal of updates since, and the lock (see docs/reference/storage.md).

Knows: folders and files, and images of knowledge bases as arrays and plain values (`engine.image`). Must not know: how
an engine is made from an image (`engine.imaging`), or what an update does.

- `home`: the folder that holds a snapshot and its journal, and which of them count;
- `follower`: the same folder for those who read it while it is written to;
- `snapshot_files`: an image as a folder of files, with the dictionary as `term_columns`;
- `array_files`: named arrays in a file; `parquet_files`: the tables that earlier versions wrote in their place;
- `journal`: the append-only log of updates since a snapshot, each as JSON;
- `checked_json`: JSON that is read back, and the names and rules in it;
- `folder_lock`: one writer at a time; `durable_files`: files that survive a crash, and that are ours alone.
"""
