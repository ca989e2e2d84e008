"""Synthetic graphs as arrays of edges, each the same for the same seed.

Random graphs and acyclic graphs (DAG-R of "Modular Materialisation of Datalog Programs" §7), the shapes that are hard
for closures (chain, cycle, clique), the groups of places that Claros' `relatedPlaces` and UOBM's
`hasSameHomeTownWith` make, category hierarchies like those of DBpedia's SKOS vocabulary, families for same
generation, and the assignments of an imaginary program for Andersen's points-to analysis.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Edges: TypeAlias = NDArray[np.int64]
"""An edge a row: from, to."""


def _distinct(rng: np.random.Generator, bound: int, count: int) -> NDArray[np.int64]:
    """So many different numbers below a bound, without listing all of them."""
    if count > bound:
        raise ValueError(f"there are only {bound} different edges, but {count} were asked for")
    found = np.unique(rng.integers(0, bound, count))
    while len(found) < count:
        found = np.unique(np.concatenate((found, rng.integers(0, bound, count - len(found) + 16))))
    return rng.permutation(found)[:count]


def random_graph(nodes: int, edges: int, seed: int) -> Edges:
    """Different random edges, none from a node to itself."""
    keys = _distinct(np.random.default_rng(seed), nodes * (nodes - 1), edges)
    source, offset = keys // (nodes - 1), keys % (nodes - 1)
    return np.stack((source, (source + 1 + offset) % nodes), axis=1)


def random_dag(nodes: int, edges: int, seed: int) -> Edges:
    """Different random edges, each from a lower to a higher node."""
    keys = _distinct(np.random.default_rng(seed), nodes * (nodes - 1) // 2, edges)
    # Key k stands for the pair (low, high) with k = high (high - 1) / 2 + low; the root is exact to within one.
    high = ((1 + np.sqrt(1 + 8 * keys.astype(np.float64))) / 2).astype(np.int64)
    high -= high * (high - 1) // 2 > keys
    high += high * (high + 1) // 2 <= keys
    return np.stack((keys - high * (high - 1) // 2, high), axis=1)


def chain(nodes: int) -> Edges:
    """0 → 1 → … → nodes - 1."""
    numbers = np.arange(nodes - 1, dtype=np.int64)
    return np.stack((numbers, numbers + 1), axis=1)


def cycle(nodes: int) -> Edges:
    """A chain whose end leads back to its beginning."""
    numbers = np.arange(nodes, dtype=np.int64)
    return np.stack((numbers, (numbers + 1) % nodes), axis=1)


def chains(count: int, length: int) -> Edges:
    """Many short chains side by side: a closure whose size is proportional to its input."""
    numbers = np.arange(count * length, dtype=np.int64)
    sources = numbers[numbers % length != length - 1]
    return np.stack((sources, sources + 1), axis=1)


def groups(sizes: list[int], extra: float, seed: int) -> Edges:
    """A random tree in each group and `extra` more edges for each member: a symmetric and transitive relation over it
    makes a clique of each group. Most edges are not needed to hold a group together, some are."""
    rng = np.random.default_rng(seed)
    parts: list[Edges] = []
    first = 0
    for size in sizes:
        members = np.arange(1, size, dtype=np.int64)
        tree = np.stack((members, (rng.random(size - 1) * members).astype(np.int64)), axis=1)
        more = random_graph(size, min(int(size * extra), size * (size - 1)), int(rng.integers(1 << 31)))
        parts.append(np.unique(np.concatenate((tree, more)), axis=0) + first)
        first += size
    return np.concatenate(parts)


def hierarchy(nodes: int, parents: float, seed: int, core: int) -> Edges:
    """Categories and their broader ones, `parents` of them on average, in long chains. The `core` most general ones
    also lead to each other, up and down: cycles, as among DBpedia's categories."""
    rng = np.random.default_rng(seed)
    children = np.concatenate((np.arange(1, nodes), rng.integers(1, nodes, int(nodes * (parents - 1)))))
    above = (children * rng.random(len(children)) ** 0.5).astype(np.int64)
    tangle = random_graph(core, min(4 * core, core * (core - 1)), int(rng.integers(1 << 31)))
    edges: Edges = np.unique(np.concatenate((np.stack((children, above), axis=1), tangle)), axis=0)
    return np.delete(edges, edges[:, 0] == edges[:, 1], axis=0)


def family(people: int, generations: int, seed: int) -> Edges:
    """parent(child, parent): two parents each, from the generation before."""
    rng = np.random.default_rng(seed)
    width = people // generations
    children = np.repeat(np.arange(width, width * generations, dtype=np.int64), 2)
    parents = (children // width - 1) * width + rng.integers(0, width, len(children))
    return np.unique(np.stack((children, parents), axis=1), axis=0)


def pointers(variables: int, statements: int, seed: int) -> dict[str, Edges]:
    """Statements of an imaginary program: a third take an address, the rest assign, load and store."""
    rng = np.random.default_rng(seed)
    shares = {"address_of": 0.3, "assign": 0.5, "load": 0.1, "store": 0.1}
    return {
        name: random_graph(variables, int(statements * share), int(rng.integers(1 << 31)))
        for name, share in shares.items()
    }
