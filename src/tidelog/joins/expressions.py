"""Arithmetic and comparisons inside kernels, on term numbers.

An expression is a sequence of postfix words (`plan_words.E_…`). Its value is a kind and 64 bits: an integer, the bits
of a float, or, for any other kind, the number of the term. An error (division by zero, overflow, a string instead of a
number) makes the rule instance fail; the executor counts it. Functions on strings and Python functions are not here:
plans call them in steps of their own.

Literals are dates, durations and numbers that do not fit in 64 bits, or mean nothing here. What arithmetic yields for
them, Python computes (`language.functions.moments`); each operation has a memo of its own.
"""

import math

from tidelog.joins.memos import first_with_values, request
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import term_kinds as K
from tidelog.machine.fact_kernels import record_of, relation_row
from tidelog.machine.hash_tables import MASK_32, SEED, mix, probe_number
from tidelog.machine.jit import (
    bits_of_float,
    device,
    float_of_bits,
    inlined,
    load_i32,
    load_i64,
    load_u8,
    store_i32,
    store_i64,
    store_u8,
)

# Functions of kernels by number; `store.assembler` translates their names.
OPERATORS = (
    *("+", "-", "*", "/", "%", "neg", "abs", "min2", "max2", "floor", "ceil", "round", "sqrt", "log", "exp"),
    *("div", "mod", "band", "bor", "bxor", "shl", "shr", "**"),
)
O_ADD, O_SUBTRACT, O_MULTIPLY, O_DIVIDE, O_MODULO, O_NEGATE, O_ABS, O_MIN, O_MAX = 0, 1, 2, 3, 4, 5, 6, 7, 8
O_FLOOR, O_CEIL, O_ROUND, O_SQRT, O_LOG, O_EXP = 9, 10, 11, 12, 13, 14
O_DIV, O_MOD, O_AND, O_OR, O_XOR, O_SHIFT_LEFT, O_SHIFT_RIGHT, O_POWER = 15, 16, 17, 18, 19, 20, 21, 22
C_FIRST = len(OPERATORS)  # comparisons are numbered after these where both can be meant
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
C_EQUAL, C_UNEQUAL, C_LESS, C_LESS_EQUAL, C_GREATER, C_GREATER_EQUAL = 0, 1, 2, 3, 4, 5

BAD = -1  # the kind of a value that could not be computed
NEEDS_CALL = -2  # of one that Python has to compute first
NEEDS_TERMS = -3  # of one for which the dictionary has to grow first
LARGEST = 9223372036854775807
SMALLEST = -9223372036854775807 - 1
TWO_63 = 9223372036854775808.0
TOP_BIT = 4611686018427387904
EXACT = 9007199254740992  # up to here, every integer is a float
LONG_QUOTIENT = 18014398509481984  # two bits more than a float has


@inlined
def term_kind(m, term):
    return load_u8(m[M.TERM_KINDS] + term)


@inlined
def term_payload(m, term):
    return load_i64(m[M.TERM_PAYLOADS] + 8 * term)


@inlined
def is_number(kind):
    return kind in (K.INTEGER, K.FLOAT)


@inlined
def as_float(kind, bits):
    if kind == K.INTEGER:
        return float(bits)
    return float_of_bits(bits)


@inlined
def order_of(left, right):
    """-1, 0 or 1."""
    return -1 if left < right else (1 if left > right else 0)


@device
def compare_numbers(left_kind, left, right_kind, right):
    """-1, 0 or 1, or 2 if one is NaN. Exact between integers and floats."""
    if left_kind == K.INTEGER and right_kind == K.INTEGER:
        return order_of(left, right)
    if left_kind == K.FLOAT and right_kind == K.FLOAT:
        first, second = float_of_bits(left), float_of_bits(right)
        return 2 if first != first or second != second else order_of(first, second)
    if left_kind == K.FLOAT:
        mirrored = compare_numbers(right_kind, right, left_kind, left)
        return mirrored if mirrored == 2 else -mirrored
    number = float_of_bits(right)
    if number != number:
        return 2
    if number >= TWO_63:
        return -1
    if number < -TWO_63:
        return 1
    below = math.floor(number)
    if left != below:
        return order_of(left, below)
    return -1 if number > below else 0


@device
def compare_texts(m, left, right):
    """-1, 0 or 1 by code points: UTF-8 orders bytes as it orders code points."""
    text = m[M.TERM_TEXT]
    first = text + term_payload(m, left)
    second = text + term_payload(m, right)
    first_size = load_i32(m[M.TERM_SIZES] + 4 * left)
    second_size = load_i32(m[M.TERM_SIZES] + 4 * right)
    for position in range(min(first_size, second_size)):
        one = load_u8(first + position)
        two = load_u8(second + position)
        if one != two:
            return order_of(one, two)
    return order_of(first_size, second_size)


@device
def holds(operator, order):
    """1 if a comparison holds between values in this order, else 0. NaN is unequal to everything, and no more."""
    if operator == C_UNEQUAL:
        return 1 if order != 0 else 0
    less = operator in (C_LESS, C_LESS_EQUAL) and order == -1
    equal = operator in (C_EQUAL, C_LESS_EQUAL, C_GREATER_EQUAL) and order == 0
    greater = operator in (C_GREATER, C_GREATER_EQUAL) and order == 1
    return 1 if less or equal or greater else 0


@device
def compare(m, operator, left_kind, left, right_kind, right):
    """1 if the comparison holds, 0 if not, -1 if the two cannot be compared."""
    if left_kind == BAD or right_kind == BAD:
        return -1
    if is_number(left_kind) and is_number(right_kind):
        return holds(operator, compare_numbers(left_kind, left, right_kind, right))
    if operator in (C_EQUAL, C_UNEQUAL):
        return holds(operator, 0 if left_kind == right_kind and left == right else 1)
    if left_kind != right_kind:
        return -1
    if left_kind in (K.STRING, K.IRI):
        return holds(operator, compare_texts(m, left, right))
    if left_kind == K.BOOLEAN:
        return holds(operator, order_of(term_payload(m, left), term_payload(m, right)))
    return -1


@device
def put_float(slot, value):
    """Put a float on the stack; False if it is not finite."""
    if value - value != 0.0:
        return False
    store_i64(slot, K.FLOAT)
    store_i64(slot + 8, bits_of_float(value))
    return True


@device
def float_power(base, exponent):
    """A power; NaN if there is none, or none that is finite."""
    if base - base != 0.0 or exponent - exponent != 0.0:
        return math.nan
    if exponent == 1.0:
        return base
    if base == 0.0:
        return math.nan if exponent < 0.0 else (1.0 if exponent == 0.0 else 0.0)
    if base < 0.0 and exponent % 1.0 != 0.0:
        return math.nan
    # Python raises where the power is too large; this close to the limit, it has none.
    return math.pow(base, exponent) if exponent * math.log(abs(base)) < 709.78 else math.nan


@device
def float_operation(operator, left, right):
    """The value of a float operation; NaN if there is none."""
    if operator == O_ADD:
        return left + right
    if operator == O_SUBTRACT:
        return left - right
    if operator == O_MULTIPLY:
        return left * right
    if operator == O_POWER:
        return float_power(left, right)
    if right == 0.0:
        return math.nan
    if operator == O_DIVIDE:
        return left / right
    return left % right


@device
def bit_operation(operator, left, right, result):
    """Store the value of an operation on the bits of two integers; False for a shift that has none."""
    if operator == O_AND:
        store_i64(result, left & right)
    elif operator == O_OR:
        store_i64(result, left | right)
    elif operator == O_XOR:
        store_i64(result, left ^ right)
    elif not 0 <= right <= 63:
        return False
    elif operator == O_SHIFT_RIGHT:
        store_i64(result, left >> right)
    else:
        most = LARGEST >> right
        if not -most - 1 <= left <= most:
            return False
        store_i64(result, left << right)
    return True


@device
def integer_operation(operator, left, right, result):
    """Store the value of an integer operation; False if it overflows or divides by zero."""
    if operator in (O_MODULO, O_MOD):
        if right == 0:
            return False
        store_i64(result, 0 if right == -1 else left % right)
        return True
    if operator == O_DIV:
        if right == 0 or (right == -1 and left == SMALLEST):
            return False
        store_i64(result, -left if right == -1 else left // right)
        return True
    if operator == O_ADD:
        value = left + right
    elif operator == O_SUBTRACT:
        value = left - right
    else:
        value = left * right
    store_i64(result, value)
    estimate = float_operation(operator, float(left), float(right))
    if -9.1e18 < estimate < 9.1e18:
        return True
    # So close to the limit, a value beyond it has the wrong sign if it is compiled, and too many bits if it is not.
    return -9.3e18 < estimate < 9.3e18 and (value < 0) == (estimate < 0) and SMALLEST <= value <= LARGEST


@device
def integer_power(base, exponent, result):
    """Store a power with an exponent that is not negative; False if it overflows."""
    if -1 <= base <= 1:
        store_i64(result, 1 if exponent % 2 == 0 and (base != 0 or exponent == 0) else base)
        return True
    if exponent > 63:
        return False
    store_i64(result, 1)
    for _ in range(exponent):  # noqa: SIM110  (kernels have no generators)
        if not integer_operation(O_MULTIPLY, load_i64(result), base, result):
            return False
    return True


@device
def magnitude(value):
    """The absolute value of an integer, but half of it for the one where that overflows."""
    return TOP_BIT if value == SMALLEST else abs(value)


@device
def integer_quotient(left, right):
    """The float nearest to the quotient of two integers; NaN for a division by zero."""
    if right == 0:
        return math.nan
    if -EXACT <= left <= EXACT and -EXACT <= right <= EXACT:
        return left / right
    # Long division, until the quotient has more bits than a float. Its last bit says whether there is a rest, so that
    # only the conversion to a float rounds.
    dividend = magnitude(left)
    divisor = magnitude(right)
    quotient = dividend // divisor
    rest = dividend % divisor
    scale = (2.0 if left == SMALLEST else 1.0) / (2.0 if right == SMALLEST else 1.0)
    while quotient < LONG_QUOTIENT and quotient + rest > 0:
        quotient *= 2
        if rest >= divisor - rest:
            quotient += 1
            rest -= divisor - rest
        else:
            rest += rest
        scale *= 0.5
    value = float(quotient | (1 if rest != 0 else 0)) * scale
    return value if (left < 0) == (right < 0) else -value


@device
def binary_operation(operator, slot, other):
    """Replace the value at `slot` by the operation on it and the value at `other`; False if that fails."""
    left_kind = load_i64(slot)
    left = load_i64(slot + 8)
    right_kind = load_i64(other)
    right = load_i64(other + 8)
    if not is_number(left_kind) or not is_number(right_kind):
        return False
    if operator in (O_MIN, O_MAX):
        order = compare_numbers(left_kind, left, right_kind, right)
        if order == 2:
            return False
        if (operator == O_MIN and order == 1) or (operator == O_MAX and order == -1):
            store_i64(slot, right_kind)
            store_i64(slot + 8, right)
        return True
    whole = left_kind == K.INTEGER and right_kind == K.INTEGER
    if O_AND <= operator <= O_SHIFT_RIGHT:
        return whole and bit_operation(operator, left, right, slot + 8)
    if operator == O_DIV and not whole:
        return False
    if whole and operator == O_POWER and right >= 0:
        return integer_power(left, right, slot + 8)
    if whole and operator != O_POWER:
        if operator != O_DIVIDE:
            return integer_operation(operator, left, right, slot + 8)
        value = integer_quotient(left, right)
    else:
        value = float_operation(operator, as_float(left_kind, left), as_float(right_kind, right))
    return put_float(slot, value)


@device
def round_to_integer(operator, value, slot):
    # Compiled, all three yield 64-bit integers for any value, NaN too: check it first.
    if not (-TWO_63 <= value < TWO_63):
        return False
    if operator == O_FLOOR:
        rounded = math.floor(value)
    elif operator == O_CEIL:
        rounded = math.ceil(value)
    else:
        rounded = round(value)
    store_i64(slot, K.INTEGER)
    store_i64(slot + 8, rounded)
    return True


@device
def unary_operation(operator, slot):
    """Replace the value at `slot` by the operation on it; False if that fails."""
    kind = load_i64(slot)
    bits = load_i64(slot + 8)
    if not is_number(kind):
        return False
    if operator in (O_NEGATE, O_ABS):
        if kind == K.INTEGER:
            if operator == O_ABS and bits >= 0:
                return True
            if bits == SMALLEST:
                return False
            store_i64(slot + 8, -bits)
            return True
        number = float_of_bits(bits)
        store_i64(slot + 8, bits_of_float(abs(number) if operator == O_ABS else -number))
        return True
    if operator in (O_FLOOR, O_CEIL, O_ROUND):
        if kind == K.INTEGER:
            return True
        return round_to_integer(operator, float_of_bits(bits), slot)
    number = as_float(kind, bits)
    if operator == O_SQRT:
        return number >= 0.0 and put_float(slot, math.sqrt(number))
    if operator == O_LOG:
        return number > 0.0 and put_float(slot, math.log(number))
    # The exponential of a larger number is no float.
    return number <= 709.782712893384 and put_float(slot, math.exp(number))


@inlined
def is_binary(operator):
    return operator <= O_MODULO or operator in (O_MIN, O_MAX) or operator >= O_DIV


@device
def literal_operation(m, operation, slot, count):
    """Replace the values from `slot` on by what an operation yields for them, if one of them is a literal: its kind, or
    why there is none.
    """
    known = m[M.LITERAL_MEMOS] + 8 * operation
    memo = load_i32(known)
    if memo < -1 or (load_i64(slot) != K.LITERAL and (count == 1 or load_i64(slot + 16) != K.LITERAL)):
        return BAD
    sources = slot + 16 * count
    for position in range(count):
        kind = load_i64(slot + 16 * position)
        bits = load_i64(slot + 16 * position + 8)
        term = intern_number(m, kind, bits) if is_number(kind) else bits
        if term < 0:
            return NEEDS_TERMS
        store_i32(sources + 4 * position, -1 - term)
    if memo >= 0:
        fact = first_with_values(m, load_i32(known + 4), sources, 0)
        if fact >= 0:
            result = load_i32(record_of(relation_row(m, memo), fact) + 4 * count)
            if result == K.FAILURE:
                return BAD
            found = term_kind(m, result)
            store_i64(slot, found)
            store_i64(slot + 8, term_payload(m, result) if is_number(found) else result)
            return found
    request(m, -1 - operation, count, sources, 0)
    return NEEDS_CALL


@device
def compare_literals(m, operator, left_kind, left, right_kind, right):
    """1 if a comparison holds of which a side is a literal, 0 if not, else why it cannot be said."""
    slot = m[M.SCRATCH]
    store_i64(slot, left_kind)
    store_i64(slot + 8, left)
    store_i64(slot + 16, right_kind)
    store_i64(slot + 24, right)
    kind = literal_operation(m, C_FIRST + operator, slot, 2)
    return kind if kind < 0 else term_payload(m, load_i64(slot + 8))


@device
def evaluate(m, expression, variables):
    """Compute an expression: its value is at the bottom of the stack in `M.SCRATCH`, its kind is returned."""
    code = m[M.CODE]
    top = m[M.SCRATCH] - 16
    at = code + 4 * expression
    while True:
        word = load_i32(at)
        if word == P.E_END:
            return load_i64(m[M.SCRATCH])
        operand = load_i32(at + 4)
        at += 8
        if word == P.E_CALL:
            if is_binary(operand):
                top -= 16
                fine = binary_operation(operand, top, top + 16)
            else:
                fine = unary_operation(operand, top)
            if not fine:
                kind = literal_operation(m, operand, top, 2 if is_binary(operand) else 1)
                if kind < 0:
                    return kind
            continue
        term = load_i64(variables + 8 * operand) if word == P.E_VARIABLE else operand
        top += 16
        kind = term_kind(m, term)
        store_i64(top, kind)
        store_i64(top + 8, term_payload(m, term) if is_number(kind) else term)


@inlined
def number_hash(kind, bits):
    return mix(mix(mix(SEED, kind), bits & MASK_32), (bits >> 32) & MASK_32)


@device
def enter_term(m, slot, kind, payload, size, hashed):
    """Enter a new term at its slot; its number, a freed one or the next, or -1 if the dictionary must grow first."""
    free = m[M.TERM_FREE_COUNT]
    if free > 0:
        m[M.TERM_FREE_COUNT] = free - 1
        term = load_i32(m[M.TERM_FREE] + 4 * (free - 1))
    else:
        term = m[M.TERM_COUNT]
        if term >= m[M.TERM_LIMIT]:
            return -1
        m[M.TERM_COUNT] = term + 1
    store_i32(m[M.TERM_SLOTS] + 4 * slot, term)
    store_u8(m[M.TERM_KINDS] + term, kind)
    store_i64(m[M.TERM_PAYLOADS] + 8 * term, payload)
    store_i32(m[M.TERM_SIZES] + 4 * term, size)
    store_i32(m[M.TERM_HASHES] + 4 * term, hashed)
    return term


@inlined
def is_number_term(term, sought):
    """Whether a term is a number of a kind with these bits."""
    kinds, payloads, kind, bits = sought
    return load_i64(payloads + 8 * term) == bits and load_u8(kinds + term) == kind


@device
def intern_number(m, kind, bits):
    """The term of a number, a new one if needed; -1 if the dictionary must grow first."""
    if kind == K.FLOAT and float_of_bits(bits) == 0.0:
        bits = 0
    hashed = number_hash(kind, bits)
    sought = (m[M.TERM_KINDS], m[M.TERM_PAYLOADS], kind, bits)
    slot, term = probe_number(m[M.TERM_SLOTS], m[M.TERM_SLOT_COUNT], hashed, is_number_term, sought)
    if term != R.EMPTY:
        return term
    return enter_term(m, slot, kind, bits, 0, hashed)
