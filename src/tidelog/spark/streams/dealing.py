"""The numbers of shards, chosen so that Spark deals the shards evenly to its tasks.

Spark assigns a group of rows to a task by the hash of its key. Of a few dozen shards with consecutive numbers, one of
four tasks can get twice as many as another, and all others wait for it. So each shard gets a number whose hash leaves
the same remainder as the shard's place: consecutive places then go to the tasks in turn, for all usual numbers of
tasks.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count

# If the number of tasks divides this, all tasks get the same number of shards, give or take one.
_ROUND = 2**6 * 3 * 5 * 7
_BITS = (1 << 32) - 1


def numbers_of_shards(shards: int) -> tuple[int, ...]:
    """A number for each shard, always the same ones."""
    open_places: dict[int, list[int]] = defaultdict(list)
    for place in reversed(range(shards)):
        open_places[place % _ROUND].append(place)
    found: dict[int, int] = {}
    for number in count():
        if len(found) == shards:
            break
        places = open_places.get(spark_hash(number) % _ROUND)
        if places:
            found[places.pop()] = number
    return tuple(found[place] for place in range(shards))


def spark_hash(number: int) -> int:
    """Spark's `hash(number)` of an `int` that is not negative: Murmur3 with the seed 42."""
    mixed = _rotated(number * 0xCC9E2D51, 15) * 0x1B873593 & _BITS
    value = _rotated(42 ^ mixed, 13) * 5 + 0xE6546B64 & _BITS
    value ^= 4  # the bytes of an int
    value = (value ^ value >> 16) * 0x85EBCA6B & _BITS
    value = (value ^ value >> 13) * 0xC2B2AE35 & _BITS
    value ^= value >> 16
    return value - (1 << 32) if value >> 31 else value


def _rotated(value: int, by: int) -> int:
    value &= _BITS
    return (value << by | value >> 32 - by) & _BITS
