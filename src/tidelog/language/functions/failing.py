"""What functions of the language share: how a call fails, and what its arguments must be."""

from __future__ import annotations

from tidelog.values import Value


class CallFailed(Exception):
    """A function that cannot take its arguments; the message, if any, says why, after the call itself."""


def text(value: Value) -> str:
    if type(value) is not str:
        raise CallFailed
    return value


def number(value: Value) -> int | float:
    if type(value) is not int and type(value) is not float:
        raise CallFailed
    return value


def place(value: Value) -> int:
    """A number of a character or of a part, from 0 on."""
    if type(value) is not int or value < 0:
        raise CallFailed
    return value
