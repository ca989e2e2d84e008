"""Facts whose counter is full and has lost a derivation: they look for one that is left (see `machine.counters`).

They wait in the queues of their relations, where what counts derivations has put them. One instance that holds now is
enough: then the counter stays full. Where there is none, it is zero.
"""

from __future__ import annotations

from tidelog.engine.algorithms.rederivation import IN_DOUBT, rederive
from tidelog.engine.compiled import Node
from tidelog.engine.propagation.match_sets import HOLDING
from tidelog.engine.transaction import Transaction
from tidelog.machine import registers as M
from tidelog.machine import work_lists as L


def settle_doubts(transaction: Transaction, node: Node, without: frozenset[int] = frozenset()) -> None:
    """End the doubts that deletion or counting have left in a component: of the facts that wait, those that were to be
    overdeleted and have a derivation wait no more. Rules whose instances are counted only afterwards are left out.
    """
    if not transaction.machine[M.DOUBTS]:
        return
    transaction.jobs.queues_to_list(node, L.D)
    HOLDING.install(transaction.machine)
    transaction.runner.run(rederive, *node.heads(without).arguments(), IN_DOUBT)
    transaction.lists.clear(L.D)
    transaction.machine[M.DOUBTS] = 0
