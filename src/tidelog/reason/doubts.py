"""Facts whose counter is full and has lost a derivation: they look for one that is left (see `reason.counts`).

They wait in the queues of their relations, where what counts derivations has put them. One instance that holds now is
enough: then the counter stays full. Where there is none, it is zero.
"""

from __future__ import annotations

from tidelog.reason.compiled import Node
from tidelog.reason.proof_state import LIST_D
from tidelog.reason.rederivation import IN_DOUBT, rederive
from tidelog.reason.sets import HOLDING
from tidelog.reason.transaction import Transaction
from tidelog.store.layout import M_DOUBTS


def settle_doubts(transaction: Transaction, node: Node, without: frozenset[int] = frozenset()) -> None:
    """End the doubts that deletion or counting have left in a component: of the facts that wait, those that were to be
    overdeleted and have a derivation wait no more. Rules whose instances are counted only afterwards are left out.
    """
    if not transaction.machine[M_DOUBTS]:
        return
    transaction.queues_to_list(node, LIST_D)
    HOLDING.install(transaction.machine)
    transaction.run(rederive, *node.heads(without).arguments(), IN_DOUBT)
    transaction.clear_list(LIST_D)
    transaction.machine[M_DOUBTS] = 0
