"""The store: all that kernels reach, which is registers, terms, relations, indexes, plans, buffers and work lists."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidelog.joins.code import Code
from tidelog.joins.expressions import COMPARISONS, OPERATORS
from tidelog.language.functions.moments import OPERATIONS as OF_LITERALS
from tidelog.language.literals import render_value
from tidelog.language.names import is_hidden
from tidelog.language.syntax import Atom, Term
from tidelog.machine import flags as F
from tidelog.machine import index_fields as X
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.array_memory import Spare
from tidelog.machine.growth import grown, no_pause
from tidelog.machine.jit import address, new_registers
from tidelog.machine.work_lists import WorkLists
from tidelog.program.plan import Plan
from tidelog.runtime.knowledge_lock import NotAtRest
from tidelog.runtime.thread_locks import Readers
from tidelog.store.assembler import Assembler
from tidelog.store.indexes import NO_SLOTS, Index
from tidelog.store.relation import Relation
from tidelog.store.relation_kernels import find_old, find_rows
from tidelog.store.relation_parts import Cells, Records, Row
from tidelog.store.terms import Terms
from tidelog.values import Value, identity

# Initial sizes. Tests make both tiny, so that everything has to grow.
INITIAL_CAPACITY = 256

# Operations on literals by number, as kernels ask for them.
OPERATIONS = (*OPERATORS, *COMPARISONS)
# Heads are absorbed in batches of this size: they fit the cache, and calls cost nothing.
HEAD_CELLS = 16384
# Words of notes on rule instances that failed: some dozens of instances.
NOTE_WORDS = 512
# Calls of functions that failed, with the reasons, to be told when an instance fails because of them.
MOST_PROBLEMS = 1000
# The name of a relation whose number is free.
UNUSED = "#unused"


_OWN = np.array(M.OWN)


class UpdateHooks(NamedTuple):
    """What the update in work wants to be called for; it installs them when it begins."""

    between_pieces: Callable[[], None] = no_pause
    """In long work that cannot be left half done: may take new updates in, and must not raise."""
    within_closure: Callable[[], None] = no_pause
    """Between two kernels of a closure's change: the same, where no relation is half changed."""
    using_terms: Callable[[], AbstractContextManager[None]] = nullcontext
    """Around each use of terms within the update."""
    before_plan: Callable[[], None] = no_pause
    """Before each plan that is made; may raise to end the update."""


NO_HOOKS = UpdateHooks()


def _twice_as_long(table: Row) -> Row:
    """The same table with as many more rows, of zeros."""
    longer = np.zeros((2 * len(table), table.shape[1]), np.int64)
    longer[: len(table)] = table
    return longer


class RuleCounts:
    """What each rule has done so far, by its number: applications, facts that it derived first, and nanoseconds."""

    def __init__(self, machine: Row) -> None:
        self._machine = machine
        self.work: Row = np.zeros(64, np.int64)
        self.facts: Row = np.zeros(64, np.int64)
        self.time: Row = np.zeros(64, np.int64)
        self._publish()

    def _publish(self) -> None:
        self._machine[M.RULE_WORK] = address(self.work)
        self._machine[M.RULE_FACTS] = address(self.facts)
        self._machine[M.RULE_TIME] = address(self.time)

    def ensure(self, count: int) -> None:
        """Make room for the counts of so many rules."""
        if count > len(self.work):
            # All or none: the memory may run out in between. What is not written to costs none.
            wider = [np.zeros(2 * count, np.int64) for _ in range(3)]
            for array, former in zip(wider, (self.work, self.facts, self.time), strict=True):
                array[: len(former)] = former
            self.work, self.facts, self.time = wider
            self._publish()


@dataclass(slots=True)
class Needs:
    """How much the plans and rows of a store ask of the arrays that kernels work in."""

    frame: int = 0  # bytes of the largest frame
    operands: int = 0  # of the longest expression
    arity: int = 0  # of the widest row


class KernelArrays:
    """The arrays that kernels work in: frames, buffers, the undo log."""

    def __init__(self, machine: Row, spare: Spare, needs: Needs) -> None:
        self._machine = machine
        self._spare = spare
        self._needs = needs
        self._scratch: Row = np.zeros(256, np.int64)
        self._frames: Row = np.zeros(1024, np.int64)
        self._heads: Cells = np.zeros(HEAD_CELLS, np.int32)
        self._buckets: Row = np.zeros(M.SORT_BUCKETS + 1, np.int64)
        self.log: Row = np.zeros((max(INITIAL_CAPACITY, 4), R.LOG_FIELDS), np.int64)
        self.notes: Row = np.zeros(NOTE_WORDS, np.int64)
        self.literal_memos: Cells = np.array([(-1 if name in OF_LITERALS else -2, -1) for name in OPERATIONS], np.int32)
        self.requests: Cells = np.zeros(max(4 * INITIAL_CAPACITY, 64), np.int32)
        self.publish()

    def publish(self) -> None:
        """Let kernels work in these arrays."""
        machine = self._machine
        machine[M.SCRATCH] = address(self._scratch)
        machine[M.BUCKETS] = address(self._buckets)
        machine[M.FRAMES], machine[M.FRAMES_SIZE] = address(self._frames), self._frames.nbytes
        machine[M.HEADS], machine[M.HEADS_CAPACITY] = address(self._heads), len(self._heads)
        machine[M.LOG], machine[M.LOG_CAPACITY] = address(self.log), len(self.log)
        machine[M.REQUESTS], machine[M.REQUEST_CAPACITY] = address(self.requests), len(self.requests)
        machine[M.LITERAL_MEMOS] = address(self.literal_memos)
        machine[M.NOTES], machine[M.NOTES_SIZE] = address(self.notes), len(self.notes)

    def fit(self) -> None:
        """Make room for all plans and rows of the store: some may have been made while others worked in theirs."""
        needs = self._needs
        self._machine[M.FRAME_BASE] = needs.frame
        if 2 * needs.frame > self._frames.nbytes:
            self.grow_frames(2 * needs.frame)
        cells = max(2 * needs.operands + 16, needs.arity)
        if cells > len(self._scratch):
            self._scratch = np.zeros(2 * cells, np.int64)
            self.publish()
        if 4 * needs.arity > len(self._heads):
            self._heads = np.zeros(8 * needs.arity, np.int32)
            self.publish()

    def ensure_frame(self, size: int) -> None:
        """Make room for a frame of that many bytes at the bottom of the stack of frames."""
        self._needs.frame = max(self._needs.frame, size)
        self.fit()

    def grow_frames(self, size: int = 0) -> None:
        self._frames = grown(self._frames, max(2 * len(self._frames), size // 8 + 1), spare=self._spare)
        self.publish()

    def ensure_scratch(self, operands: int) -> None:
        """Make room for expressions with so many operands."""
        self._needs.operands = max(self._needs.operands, operands)
        self.fit()

    def ensure_row(self, arity: int) -> None:
        """Make room for rows, which are put together in the scratch memory and in the buffer of heads."""
        self._needs.arity = max(self._needs.arity, arity)
        self.fit()

    def grow_log(self, needed: int) -> None:
        self.log = grown(self.log, max(needed, 2 * len(self.log)), spare=self._spare)
        self.publish()

    def grow_requests(self, most: int | None = None) -> None:
        """Make room for more requests, up to `most` cells."""
        if most is not None and len(self.requests) >= most:
            return
        self.requests = grown(self.requests, 2 * len(self.requests), spare=self._spare)
        self.publish()


class Making:
    """The context of `making_for`. It is not a generator, since small updates enter it several times."""

    __slots__ = ("_name", "_outer", "_store")

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    def __enter__(self) -> None:
        self._store.check_at_rest()
        self._outer, self._store.making = self._store.making, self._name

    def __exit__(self, *_: object) -> None:
        self._store.making = self._outer


class Store:
    """Everything that kernels reach."""

    def __init__(self) -> None:
        capacity = INITIAL_CAPACITY
        self.machine = new_registers(M.SIZE)
        self._capacity = capacity
        self.spare = Spare()
        self.readers = Readers()  # of what updates change, without the lock of the knowledge base
        self.relation_table: Row = np.zeros((8, R.FIELDS), np.int64)
        self._index_table: Row = np.zeros((8, X.FIELDS), np.int64)
        self.relations: list[Relation] = []
        self._indexes: dict[int, Index] = {}  # by number
        self._by_name: dict[str, Relation] = {}
        self._made: list[Relation] = []  # since `begin_relations`
        # Numbers of relations and of indexes that are free.
        self._spare: list[int] = []
        self._spare_indexes: list[int] = []
        self.hooks = NO_HOOKS
        self.postponed: set[Relation] = set()  # those whose hash tables do not hold all facts
        self._memos: dict[tuple[str, int], Relation] = {}
        self.memo_functions: dict[int, str] = {}
        self._problems: dict[tuple[str, tuple[object, ...]], str] = {}  # why calls of functions gave no value
        self.terms = Terms(self.machine, capacity)
        self.code = Code(self.machine)
        self.rule_counts = RuleCounts(self.machine)
        self._needs = Needs()
        self.arrays, self.lists = self._new_workbench()
        # Rows of the tables that stand for a relation or an index while another table is filled.
        self._draft: Relation | None = None
        self._draft_index: Index | None = None
        self.at_rest = True  # false where a reader comes in between two pieces of a change
        self.making: str | None = None  # the name of the relation that something is being made for, see `making_for`
        self.shown = F.IN  # the facts that readers see: those in I, or those that were before the update in work
        self._workbenches = [(self.arrays, self.lists)]  # one for each level of `apart`
        self._paused: list[Row] = []  # the registers of paused kernels, one for each level below
        self._publish()

    def _publish(self) -> None:
        self.machine[M.RELATIONS] = address(self.relation_table)
        self.machine[M.INDEXES] = address(self._index_table)

    # --- drafts -------------------------------------------------------------------------------------------------------

    @contextmanager
    def draft_of(self, relation: Relation) -> Iterator[tuple[int, Row]]:
        """A number that kernels know the same relation by, and its fields, to be changed within."""
        if self._draft is None:
            self._draft = self.new_relation("#draft", 0)
            self._made.remove(self._draft)
        fields, kept = self._draft.fields, self._draft.fields.copy()
        fields[:] = relation.fields
        try:
            yield self._draft.number, fields
        finally:
            self._draft.fields[:] = kept

    @contextmanager
    def draft_of_index(self, index: Index) -> Iterator[tuple[int, Row]]:
        """The same for an index."""
        if self._draft_index is None:
            self._draft_index = self.new_index(())
        fields, kept = self._draft_index.fields, self._draft_index.fields.copy()
        fields[:] = index.fields
        try:
            yield self._draft_index.number, fields
        finally:
            self._draft_index.fields[:] = kept

    def check_at_rest(self) -> None:
        """Refuse what would change records, tables or indexes between two pieces of such a change."""
        if not self.at_rest:
            raise NotAtRest

    def making_for(self, relation: Relation) -> Making:
        """A context in which something is made of a relation or for it, such as an index, in pieces. Between them,
        updates that have nothing to do with it may be applied.
        """
        return Making(self, relation.name)

    # --- what was -----------------------------------------------------------------------------------------------------

    def stand_in(self, name: str, arity: int) -> Relation:
        """A relation for what a predicate was, to be filled; `remove_stand_in` ends it."""
        made = self.new_relation(f"#before {name}", arity)
        self._made.remove(made)
        return made

    def remove_stand_in(self, relation: Relation) -> None:
        with suppress(MemoryError):  # Without memory for an empty one it stays, unused.
            relation.let_go()
            self.retire(relation)

    @contextmanager
    def showing(self, shown: int, stand_ins: Mapping[str, Relation]) -> Iterator[None]:
        """Let readers see the facts with a flag, and other relations under some names. New names are forgotten."""
        outer = self.shown, self._by_name
        self.shown, self._by_name = shown, {**self._by_name, **stand_ins}
        try:
            yield
        finally:
            self.shown, self._by_name = outer

    # --- kernels beside others ----------------------------------------------------------------------------------------

    def _new_workbench(self) -> tuple[KernelArrays, WorkLists]:
        arrays = KernelArrays(self.machine, self.spare, self._needs)
        return arrays, WorkLists(self.machine, max(self._capacity, 4), self.spare)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Run other kernels while those of an update are paused: within, they have registers, work lists and arrays of
        their own. Afterwards the paused ones find theirs as they left them.
        """
        machine = np.asarray(self.machine)  # Plain Python checks each single register.
        registers = machine[_OWN]
        outer = self.arrays, self.lists, self.hooks, self._made
        self._paused.append(registers)
        try:
            if self.level == len(self._workbenches):
                self._workbenches.append(self._new_workbench())
            self.arrays, self.lists = self._workbenches[self.level]
            self.hooks, self._made = NO_HOOKS, []
            machine[_OWN] = 0
            self.arrays.publish()
            self.arrays.fit()
            self.lists.publish()
            yield
        finally:
            self._paused.pop()
            self.arrays, self.lists, self.hooks, self._made = outer
            machine[_OWN] = registers

    @property
    def level(self) -> int:
        """How many updates are paused while kernels run."""
        return len(self._paused)

    def paused_register(self, level: int, register: int) -> int:
        """What a register holds for the kernels that are paused at a level."""
        return int(self._paused[level][M.OWN.index(register)])

    # --- relations ----------------------------------------------------------------------------------------------------

    def relation(self, name: str, arity: int) -> Relation:
        """The relation of a predicate; an empty one if it is new."""
        found = self._by_name.get(name)
        if found is None:
            self.arrays.ensure_row(arity)
            found = self.new_relation(name, arity)
            self._by_name[name] = found
        return found

    def fact_count(self, hidden: bool = False) -> int:
        """How many facts all predicates have; with `hidden`, also those that stand for parts of rules."""
        counted = self._by_name.items()
        return sum(len(each) for name, each in counted if name[0] != "#" and (hidden or not is_hidden(name)))

    def pair_count(self) -> int:
        """How many pairs all closures have, which are in no records."""
        return sum(len(relation.closure) for relation in self.relations if relation.closure is not None)

    def find(self, name: str) -> Relation | None:
        return self._by_name.get(name)

    def is_closure(self, name: str) -> bool:
        """Whether the facts of a predicate are those of a closure instead of records."""
        relation = self._by_name.get(name)
        return relation is not None and relation.closure is not None

    def named(self) -> dict[str, Relation]:
        """The relations that have a name, by name."""
        return self._by_name

    def new_relation(self, name: str, arity: int) -> Relation:
        """A relation that is not found by its name; for groups of aggregates and the like."""
        self.check_at_rest()
        number = self._spare[-1] if self._spare else len(self.relations)
        if number == len(self.relation_table):
            self.relation_table = _twice_as_long(self.relation_table)
            self._publish()
        created = Relation(self, number, name, arity, self._capacity)
        if self._spare:
            self.relations[self._spare.pop()] = created
        else:
            self.relations.append(created)
        self._made.append(created)
        return created

    def retire(self, relation: Relation) -> None:
        """Free a relation's memory and its number. No plan that is still used may refer to it."""
        self._by_name.pop(relation.name, None)
        self.memo_functions.pop(relation.number, None)
        self.postponed.discard(relation)
        relation.clear()
        with suppress(MemoryError):  # Without memory for an empty one it stays, unused.
            self.relations[relation.number] = Relation(self, relation.number, UNUSED, 0, 0)
            self._spare.append(relation.number)
            for index in relation.indexes:
                index.slots = NO_SLOTS
                self._spare_indexes.append(index.number)

    def begin_relations(self) -> None:
        """Remember which relations are new from now on."""
        self._made.clear()

    def retire_new_relations(self) -> None:
        """Retire them: their purpose has failed, or is done. No plan that is still used may refer to them."""
        made, self._made = self._made, []
        self._memos = {key: memo for key, memo in self._memos.items() if memo not in made}
        numbers = [relation.number for relation in made]
        self.arrays.literal_memos[np.isin(self.arrays.literal_memos[:, 0], numbers)] = -1
        for relation in made:
            self.retire(relation)

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Plans and relations that are made within are used only there."""
        outer, self._made = self._made, []
        with self.code.borrowed():
            try:
                yield
            finally:
                self.retire_new_relations()
                self._made = outer

    def new_index(self, columns: tuple[int, ...]) -> Index:
        number = self._spare_indexes.pop() if self._spare_indexes else len(self._indexes)
        if number == len(self._index_table):
            self._index_table = _twice_as_long(self._index_table)
            for index in self._indexes.values():
                index.fields = self._index_table[index.number]
            self._publish()
        self._index_table[number] = 0
        self._indexes[number] = Index(number, columns, self._index_table[number])
        return self._indexes[number]

    def memo(self, function: str, arguments: int) -> Relation:
        """The relation that remembers the results of a function: its arguments and its result."""
        key = (function, arguments)
        if key not in self._memos:
            memo = self.new_relation(f"{function}/{arguments}", arguments + 1)
            memo.index_on(tuple(range(arguments)))
            self._memos[key] = memo
            self.memo_functions[memo.number] = function
        return self._memos[key]

    def operation_memo(self, operation: int, arguments: int) -> Relation:
        """The memo of an operation on literals, where kernels find it."""
        memo = self.memo(OPERATIONS[operation], arguments)
        self.arrays.literal_memos[operation] = memo.number, memo.index_on(tuple(range(arguments))).number
        return memo

    def note_problem(self, function: str, arguments: Sequence[Value], reason: str) -> None:
        """A call of a function gave no value."""
        if len(self._problems) < MOST_PROBLEMS:
            self._problems[function, tuple(map(identity, arguments))] = reason

    def call_problem(self, function: str, arguments: Sequence[Value]) -> str:
        """Why a call of a function gave no value."""
        known = self._problems.get((function, tuple(map(identity, arguments))))
        return f"{function}({', '.join(map(render_value, arguments))}) {known or 'has no value'}"

    def forget_function(self, function: str) -> None:
        """Forget the results of a function that has been registered again."""
        self._problems = {call: reason for call, reason in self._problems.items() if call[0] != function}
        for (name, _), memo in self._memos.items():
            if name == function:
                memo.flags[:] = 0
                memo.compact()

    # --- plans --------------------------------------------------------------------------------------------------------

    def assemble(self, plan: Plan, target: Relation | None, head: tuple[Term, ...], rule_number: int) -> int:
        """Put a plan into the code; `head` is what each match yields into `target`. Returns its offset."""
        return Assembler(self, plan, -1 if target is None else target.number, head, rule_number).assemble()

    def estimate(self, atom: Atom, bound: tuple[int, ...]) -> float:
        """About how many facts match an atom when the given columns are bound, according to the indexes."""
        relation = self._by_name.get(atom.predicate)
        if relation is None:
            return 0.0
        # The pairs of a closure are in no records, and in no index.
        virtual = relation.closure is not None
        count = len(relation) if virtual else relation.count
        if not bound:
            return float(count)
        for index in relation.indexes:
            if index.columns == bound and not virtual:
                return count / max(1, index.distinct)
        # No index yet: each bound column is assumed to reduce the facts by an equal factor.
        return float(count) ** (1.0 - len(bound) / max(1, relation.arity))

    def complete_tables(self, predicates: Container[str] | None = None) -> None:
        """Make every fact of some predicates, or of all, findable by its hash table."""
        for relation in tuple(self.postponed):
            if predicates is None or relation.name in predicates:
                relation.table.complete()

    # --- rows ---------------------------------------------------------------------------------------------------------

    def find_facts(self, relation: Relation, rows: Cells) -> Cells:
        """The fact numbers of rows, -1 for those that are not there."""
        relation.table.complete()
        rows = np.ascontiguousarray(rows, np.int32)
        result = np.empty(len(rows), np.int32)
        find_rows(self.machine, relation.number, address(rows), len(rows), address(result))
        return result

    def touched_facts(self, relation: Relation, since: int) -> Cells:
        """The facts of a relation that the update in work has touched, by the entries of its log from a place on."""
        entries = self.arrays.log[since : int(self.machine[M.LOG_COUNT])]
        return entries[entries[:, 0] == relation.number, 1].astype(np.int32)

    def find_old(self, relation: Relation, former: Records) -> Cells:
        """For each former record its fact now: -1 if there is none, -2 if it was not in I before the update."""
        cells = former.cells
        result = np.empty(former.count, np.int32)
        try:
            # Many lookups fail, which takes long in a full table and almost nothing with bits.
            relation.bits.keep()
            relation.table.complete(0 if relation.bits.kept else former.count)
            find_old(self.machine, relation.number, address(cells), 4 * cells.shape[1], former.count, address(result))
        finally:
            relation.bits.forget()
        return result

    def remember(self, memo: Relation, rows: Cells) -> None:
        """Add rows to a memo, permanently."""
        memo.load(rows, F.IN | F.OLD)

    @property
    def nbytes(self) -> int:
        return sum(relation.nbytes for relation in self.relations) + self.terms.nbytes + self.spare.nbytes
