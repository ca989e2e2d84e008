"""Numbers of rules, given anew when a store is opened whose rules have used up a great many.

Rules are numbered in the order of their arrival, and a number that goes is not used again. The engine has memory for
every number below the next one: a knowledge base whose rules come and go for years, or a store that somebody has made
up, would make each update dear. Rules keep their order, and what is named after their numbers is named anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from tidelog.engine.compiled import group_predicate
from tidelog.engine.modules.closure_base import BASE
from tidelog.engine.modules.cores import CORE, CORE_BASE
from tidelog.storage.image import Image

# So many numbers cost nothing that anybody notices.
FEW = 1 << 20
# Or so many for each rule that there is.
SPARSE = 16

# The name of a predicate is a word or ends with `>`; what follows are numbers of rules.
_DIGEST = re.compile(r".* [0-9a-f]{32}", re.DOTALL)  # in the place of very many numbers
_NAME = re.compile(rf"({CORE_BASE}|{CORE}|{BASE}) (.*?)((?: [0-9]+)*)", re.DOTALL)


def with_few_numbers(image: Image) -> Image:
    """The image, with other numbers for its rules where they have used up too many."""
    if image.next_rule <= max(FEW, SPARSE * len(image.rules)) or any(map(_DIGEST.fullmatch, image.closures)):
        return image
    numbers = {item.number: number for number, item in enumerate(image.rules, start=1)}
    groups = {group_predicate(old): group_predicate(new) for old, new in numbers.items()}

    def named(name: str) -> str:
        return groups.get(name) or _renamed(name, numbers)

    return replace(
        image,
        next_rule=len(image.rules) + 1,
        rules=tuple(replace(item, number=numbers[item.number]) for item in image.rules),
        relations=tuple(replace(relation, name=named(relation.name)) for relation in image.relations),
        closures=tuple(map(named, image.closures)),
        pairs={named(name): count for name, count in image.pairs.items()},
    )


def _renamed(name: str, numbers: Mapping[int, int]) -> str:
    """The name of a relation that serves a closure, by the new numbers of rules; any other stays."""
    found = _NAME.fullmatch(name)
    if found is None:
        return name
    kind, predicate, copies = found.groups()
    return " ".join((kind, predicate, *(str(numbers.get(int(copy), copy)) for copy in copies.split())))
