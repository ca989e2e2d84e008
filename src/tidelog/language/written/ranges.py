"""The arithmetic of ranges, `X in range(LOW, END, STEP)`, as expressions: nothing but the number of their places can
leave 64 bits where their numbers do not, however far apart the ends are.
"""

from __future__ import annotations

from tidelog.language.syntax import Call, Comparison, Constant, Expression, Place


def tests(number: Expression, low: Expression, end: Expression, step: int, place: Place | None) -> list[Comparison]:
    """What is true of a number that is in a range. Its remainder is that of an integer, which is exact: floats are not
    exact beside a large step.
    """
    within, before = (">=", "<") if step > 0 else ("<=", ">")
    whole, width = Call("floor", (number,)), Constant(abs(step))
    return [
        Comparison(within, number, low, place),
        Comparison(before, number, end, place),
        Comparison("=", whole, number, place),
        Comparison("=", Call("%", (whole, width)), Call("%", (low, width)), place),
    ]


def count(low: Expression, end: Expression, step: int) -> Expression:
    """How many numbers a range has; no value where an end is no whole number. This is the width by the step, rounded
    up, from the quotients and remainders of both ends: the width itself may be too large. If the end lies before the
    first number, there is no width, however far that is.
    """
    whole = Call("div", (end, Constant(1)))
    least, most = (low, Call("max2", (whole, low))) if step > 0 else (Call("min2", (whole, low)), low)
    width = Constant(abs(step))
    steps = Call("-", (Call("div", (most, width)), Call("div", (least, width))))
    rest = Call("-", (Call("%", (least, width)), Call("%", (most, width))))
    return Call("-", (steps, Call("div", (rest, width))))


def number_at(low: Expression, place: Expression, step: int) -> Expression:
    """The number at a place, counted from 0. It is as far from the first one as two halves of the way, each of which
    fits, and a step where the place is odd.
    """
    half = Call("*", (Call("div", (place, Constant(2))), Constant(step)))
    odd = Call("*", (Call("%", (place, Constant(2))), Constant(step)))
    return Call("+", (Call("+", (Call("+", (low, half)), half)), odd))
