"""Hash tables in flat memory: how numbers are hashed, and the one way to probe.

All tables use linear probing. Those of facts hold 64-bit keys; those of indexes and of terms hold 32-bit numbers, and
what a number stands for is compared. Arithmetic stays inside 63 bits, so that plain Python and compiled code agree to
the bit.
"""

from __future__ import annotations

from tidelog.machine import relation_fields as R
from tidelog.machine.jit import inlined, load_i32, load_i64

MASK_32 = 0xFFFFFFFF
MULTIPLIER = 0x2C1B3C6D  # odd and below 2**30: a 32-bit number times it stays inside 62 bits
SEED = 0x297A2D39
SECOND_SEED = 0x1B873593


@inlined
def mix(state, number):
    """Fold one 32-bit number into a 32-bit hash."""
    product = (state ^ number) * MULTIPLIER
    return (product ^ (product >> 31)) & MASK_32


@inlined
def slot_of_hash(hashed, slot_count):
    """Where the search for a 32-bit hash begins."""
    return (hashed * slot_count) >> 32


@inlined
def next_slot(slot, slot_count):
    slot += 1
    return 0 if slot == slot_count else slot


@inlined
def probe_key(keys, slot_count, slot, key):
    """From a slot on, the first that holds a key or is empty, and what it holds."""
    found = load_i64(keys + 8 * slot)
    while found != R.EMPTY and found != key:
        slot = next_slot(slot, slot_count)
        found = load_i64(keys + 8 * slot)
    return slot, found


@inlined
def probe_number(slots, slot_count, hashed, is_sought, sought):
    """The slot of the number that `is_sought(number, sought)`, or the empty slot where it belongs, and what it holds.

    `sought` is a tuple of numbers: an array in it would be reference-counted, which doubles the time.
    """
    slot = slot_of_hash(hashed, slot_count)
    while True:
        number = load_i32(slots + 4 * slot)
        if number == R.EMPTY or is_sought(number, sought):
            return slot, number
        slot += 1
        if slot == slot_count:
            slot = 0


@inlined
def is_never(_number, _sought):
    """What is sought is not there: the slot is to be empty."""
    return False
