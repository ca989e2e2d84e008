"""Knowledge bases on disk: snapshots, the journal of updates since, and the lock (see docs/storage.md).

- `image`: all that a knowledge base is, as arrays and plain values, and whether its parts fit together;
- `snapshot`: an image as Parquet and JSON files in a folder; `tables`: the dictionary and relations as Parquet;
- `journal`: the append-only log of updates since a snapshot; `record`: an update as JSON;
- `checked`: JSON that is read back; `names`: predicates and rules in it; `renumbering`: rules whose numbers are spread;
- `home`: the folder that holds a snapshot and its journal, and which of them count;
- `lock`: one writer at a time; `files`: what it takes for a file to survive a crash, and to be ours.
"""
