"""Stores that somebody has changed, with all checksums right: each is refused, or opens and behaves.

`test_storage_fuzz.py` runs it in a separate process, so that a crash is a failure and not the end of all tests. A case
is a seed. Each seed is printed on a line of its own before it is tried; at the end comes how many stores were refused
and how many opened. `python tests/support/scenes/storage_fuzz.py SEED 1` runs one case again.
"""

from __future__ import annotations

import faulthandler
import json
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from old_snapshots import make_old
from store_mutations import alter_table, dumped, mutate_bytes, mutate_json, mutate_table, mutate_text
from tidelog import IRI, KnowledgeBase, Literal, StorageError, TidelogError
from tidelog.storage.durable_files import checksum
from tidelog.storage.journal import MAGIC, encode_record, read_journal

Files = dict[str, bytes]

RULES = """
    @prefix ex: <http://example.org/> .
    top(X, Y) :- path(X, Y).
    top(X, Z) :- path(X, Y), top(Y, Z).
    path(X, Y) :- edge(X, Y).
    path(X, Z) :- path(X, Y), path(Y, Z).
    near(X, Y) :- road(X, Y).
    near(Y, X) :- near(X, Y).
    near(X, Z) :- near(X, Y), near(Y, Z), X != Z.
    has(X, Y) :- of(Y, X).
    of(X, Y) :- has(Y, X).
    of(X, Z) :- of(X, Y), of(Y, Z).
    of(X, Y) :- part(X, Y).
    ex:degree(X, count(Y)) :- edge(X, Y).
    total(sum(V), max(V), avg(V)) :- value(X, V).
    lonely(X) :- node(X), not path(X, _).
    kin(X, Y) :- edge(X, Y).
    kin(X, Z) :- kin(X, Y), kin(Y, Z).
    kin(Y, X) :- kin(X, Y), node(X).
    small(X, Y) :- value(X, V), Y = V % 7, Y < 5.
    called(X, Y) :- value(X, V), Y = twice(V).
    wide(A, B, C, D, E) :- edge(A, B), edge(B, C), edge(C, D), edge(D, E), A != E.
    flag() :- edge(X, X).
    <http://example.org/a\\u0020b>(X) :- ex:degree(X, 2).
"""
CONSTANTS: list[Any] = [
    *("a", "b", "c", "", "été", "x" * 300, 1, 2, -5, 2**63 - 1, 1.5, -0.25, float("inf"), True, False),
    *(IRI("http://example.org/a"), IRI(""), Literal("a", language="en"), Literal("7", "http://example.org/t")),
]
FUNCTIONS: dict[str, Callable[..., Any]] = {"twice": lambda number: 2 * number}
ALGORITHMS = ("auto", "dred-counting", "backward-forward-counting", "counting", "counting-trace")

# --- stores -------------------------------------------------------------------------------------------------------


def make_store(folder: Path, dice: random.Random, maintenance: str, old: bool) -> Files:
    """A saved knowledge base with everything in it, and a journal of some updates and rules; if it is an old one, as an
    earlier version saved it.
    """

    def rows(arity: int, count: int) -> list[tuple[Any, ...]]:
        return [tuple(dice.choice(CONSTANTS) for _ in range(arity)) for _ in range(count)]

    def pairs(count: int) -> list[tuple[Any, ...]]:
        return [(dice.choice("abcdef"), dice.choice("abcdef")) for _ in range(count)]

    kb = KnowledgeBase(maintenance=maintenance)
    kb.register("twice", FUNCTIONS["twice"])
    kb.add_rules(RULES)
    names = {"edge": pairs, "road": pairs, "part": pairs, "path": pairs, "of": pairs}
    kb.update(add={name: make(6) for name, make in names.items()})
    kb.update(
        add={"node": rows(1, 5), "value": [(x, v) for x, v in zip("abcdef", [1, 2, 3, 10, 2**62, 4], strict=True)]}
    )
    kb.update(delete={"edge": list(kb.explicit("edge"))[:2]}, add={"any": rows(3, 9), "flag": [()]})
    kb.save(folder)
    with KnowledgeBase.open(folder, journal=True, functions=FUNCTIONS) as kb:
        kb.update(add={"edge": pairs(3), "any": rows(3, 3)}, commit={"batch": "1"})
        kb.update(delete={"edge": list(kb.explicit("edge"))[:2]}, add={"flag": [()]})
        kb.update(add_rules="@prefix b: <http://b/> . b:new(X, Y) :- any(X, Y, _), not edge(X, Y).")
        kb.update(remove_rules="kin(Y, X) :- kin(X, Y), node(X).", add={"road": pairs(2)}, commit={"batch": "2"})
    if old:
        make_old(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_store(folder: Path, files: Files) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


# --- mutations ----------------------------------------------------------------------------------------------------


def alter_manifest(manifest: Any, dice: random.Random) -> None:
    """Change a manifest into one that somebody else could have written."""
    if not isinstance(manifest, dict) or not all(isinstance(manifest.get(key), list) for key in ("rules", "closures")):
        return
    rules = [rule for rule in manifest["rules"] if isinstance(rule, dict)]
    match dice.randrange(7):
        case 0:
            for rule in rules:
                rule["counter"] = dice.choice([None, -1, 0, 1])
        case 1 if rules:
            manifest["rules"].remove(dice.choice(rules))
        case 2 if len(rules) > 1:
            one, other = dice.sample(rules, 2)
            one["text"], other["text"] = other.get("text"), one.get("text")
        case 3 if rules:
            rules[-1]["number"], manifest["next_rule"] = 10**9, 10**9 + 1
        case 4 if rules:
            rule = dice.choice(rules)
            rule["text"] = mutate_text(str(rule.get("text")), dice)
        case 5 if isinstance(manifest.get("options"), dict):
            manifest["options"]["maintenance"] = dice.choice(ALGORITHMS)
            manifest["options"]["modules"] = dice.random() < 0.5
        case _ if manifest["closures"]:
            gone = dice.choice(manifest["closures"])
            manifest["closures"].remove(gone)


def mutate_journal(content: bytes, dice: random.Random, scratch: Path) -> bytes:
    scratch.write_bytes(content)
    payloads = read_journal(scratch).payloads
    at = dice.randrange(len(payloads))
    match dice.randrange(8):
        case 0:
            payloads.insert(dice.randrange(len(payloads) + 1), payloads[at])
        case 1:
            del payloads[at]
        case 2:
            dice.shuffle(payloads)
        case 3:
            payloads[at] = mutate_bytes(payloads[at], dice)
        case _:
            update = json.loads(payloads[at])
            mutate_json(update, dice)
            payloads[at] = dumped(update)
    return MAGIC + b"".join(encode_record(number, payload) for number, payload in enumerate(payloads, start=1))


def mutate(files: Files, dice: random.Random, scratch: Path) -> Files:
    """Change a store once or more, and correct all checksums."""
    files = dict(files)
    current_name = "CURRENT"
    manifest_name = next(name for name in files if name.endswith("manifest.json"))
    folder = manifest_name.removesuffix("manifest.json")
    journal_name = next(name for name in files if name.startswith("journal"))
    manifest, current = json.loads(files[manifest_name]), json.loads(files[current_name])
    if dice.random() < 0.7:
        manifest.pop("pairs", None)  # as in older snapshots, so that closures may have other pairs
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        tables = [name for name in files if name.endswith((".arrays", ".parquet"))]
        match dice.randrange(24):
            case 0 | 1 | 2 | 3:
                mutate_json(manifest, dice)
            case 4:
                mutate_json(current, dice)
            case 5:
                name = dice.choice(tables)
                files[name] = mutate_bytes(files[name], dice)
            case 6:
                name = dice.choice(tables)
                files[name] = files[dice.choice(tables)]
            case 7 | 8:
                files[journal_name] = mutate_journal(files[journal_name], dice, scratch)
            case 9:
                terms = next(name for name in tables if name.startswith(folder + "terms"))
                files[terms] = mutate_table(files[terms], dice)
            case 10 | 11:
                name = dice.choice(tables)
                files[name] = mutate_table(files[name], dice)
            case 12 | 13 | 14:
                alter_manifest(manifest, dice)
            case _:
                for name in dice.sample(tables, dice.randint(1, len(tables))):
                    files[name] = alter_table(files[name], dice)
    if isinstance(manifest, dict) and isinstance(sums := manifest.get("files"), dict):
        for name in sums:
            if isinstance(sums[name], str) and len(sums[name]) == 64 and folder + name in files:
                sums[name] = checksum(files[folder + name])
    files[manifest_name] = dumped(manifest)
    if isinstance(current, dict) and isinstance(current.get("manifest"), str) and len(current["manifest"]) == 64:
        current["manifest"] = checksum(files[manifest_name])
    files[current_name] = dumped(current)
    return files


# --- one case -----------------------------------------------------------------------------------------------------


def look(folder: Path, dice: random.Random) -> bool:
    """Open the store and use it. Returns whether it could be opened."""
    try:
        kb = KnowledgeBase.open(folder, journal=dice.random() < 0.5, functions=FUNCTIONS)
    except StorageError:
        return False
    with kb:
        use(kb, dice)
        kb.save(folder.parent / "again")
    again = KnowledgeBase.open(folder.parent / "again", functions=FUNCTIONS)
    assert state(again) == state(kb), "saved and opened, it is something else"
    shutil.rmtree(folder.parent / "again")
    return True


def state(kb: KnowledgeBase) -> dict[str, list[str]]:
    return {name: sorted(map(repr, kb.facts(name))) for name in kb.predicates}


def use(kb: KnowledgeBase, dice: random.Random) -> None:
    """Read everything, then add and delete something."""
    state(kb)
    kb.rule_statistics()
    names = dice.sample(kb.predicates, min(4, len(kb.predicates)))
    explicit = {name: list(kb.explicit(name)) for name in kb.explicit_predicates}
    arities = {name: kb._catalogue.arities[kb._catalogue.resolve(name)] for name in names}
    fresh = {name: [tuple(dice.choice(CONSTANTS) for _ in range(arity))] for name, arity in arities.items()}
    for update in (
        {"delete": {name: rows[: len(rows) // 2 + 1] for name, rows in explicit.items()}},
        {"add": explicit},
        {"add": fresh},
        {"add_rules": "extra(X) :- edge(X, Y), not path(Y, X)."},
        {"delete": explicit},
    ):
        try:
            kb.update(**update)  # type: ignore[arg-type]
        except TidelogError:
            continue
        state(kb)


def run(first: int, stop: Callable[[int], bool]) -> None:
    warnings.simplefilter("ignore")
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        home = Path(name)
        stores = [
            make_store(home / f"store-{n}", random.Random(n), kind, old=n % 2 == 1) for n, kind in enumerate(ALGORITHMS)
        ]
        for files in stores:
            write_store(home / "case", files)
            assert look(home / "case", random.Random(0))
        opened, seed = 0, first
        while not stop(seed):
            print(seed, flush=True)
            dice = random.Random(seed)
            write_store(home / "case", mutate(dice.choice(stores), dice, home / "scratch"))
            try:
                opened += look(home / "case", dice)
            except Exception:
                traceback.print_exc()
                print(f"the case with seed {seed} failed", file=sys.stderr)
                if "--keep" in sys.argv:
                    shutil.copytree(home / "case", Path(tempfile.gettempdir()) / f"case-{seed}")
                raise SystemExit(1) from None
            seed += 1
        print(f"refused {seed - first - opened}, opened {opened}")


def main() -> None:
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, resource.RLIM_INFINITY))
    first = int(sys.argv[1])
    if sys.argv[2].endswith("s"):
        end = time.monotonic() + float(sys.argv[2][:-1])
        run(first, lambda _: time.monotonic() > end)
    else:
        run(first, lambda seed: seed >= first + int(sys.argv[2]))


if __name__ == "__main__":
    main()
