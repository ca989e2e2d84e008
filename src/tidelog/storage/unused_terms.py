"""A snapshot holds the terms that its facts use, and no others: the rest of the dictionary would never be missed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tidelog.machine import term_kinds as K
from tidelog.storage.image import Arrays, Image
from tidelog.store.term_table import TermTable


def without_unused_terms(image: Image) -> Image:
    """The same knowledge base, with terms numbered anew where some are in no fact."""
    count = len(image.terms["kinds"])
    used = np.zeros(count, np.bool_)
    for relation in image.relations:
        used[relation.rows] = True
    used[K.FAILURE] = True
    if used.all():
        return image
    (kept,) = used.nonzero()
    table, text_used = TermTable(**image.terms).with_only(kept[K.FAILURE + 1 :], count)
    terms: Arrays = {
        "kinds": table.kinds[kept],
        "payloads": table.payloads[kept],
        "sizes": table.sizes[kept],
        "text": table.text[:text_used],
    }
    numbers = (np.cumsum(used) - 1).astype(np.int32)
    relations = tuple(replace(relation, rows=numbers[relation.rows]) for relation in image.relations)
    return replace(image, terms=terms, relations=relations)
