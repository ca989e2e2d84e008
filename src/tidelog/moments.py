"""Dates, times, durations, decimals and large integers as XML Schema writes them, to Python's values and back.

Facts hold them as RDF literals. A moment with a time zone is written in UTC, one without stays so. A duration has days,
hours, minutes and seconds; months and years have no fixed length.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation

XSD = "http://www.w3.org/2001/XMLSchema#"

Moment = datetime | date | time | timedelta | Decimal | int
"""What a literal stands for in Python."""

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = r"([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6})0*)?(Z|[+-][0-9]{2}:[0-9]{2})?"
_DATE_TIME = re.compile(rf"({_DATE.pattern})T{_TIME}")
_TIME_ALONE = re.compile(_TIME)
_SECONDS = r"(?:([0-9]{1,12})(?:\.([0-9]{1,6})0*)?S)?"
_DURATION = re.compile(rf"(-)?P(?:([0-9]{{1,9}})D)?(?:T(?:([0-9]{{1,9}})H)?(?:([0-9]{{1,9}})M)?{_SECONDS})?")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS = 4000  # which Python converts in a moment
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(value: object) -> int | None:
    """A time as microseconds since 1970, UTC: of a moment, of its text as XML Schema writes it, or of a number of
    seconds; None where a value is no time. A moment without a time zone is taken for UTC, and a date begins at
    midnight.
    """
    if isinstance(value, str):
        value = read(value, f"{XSD}dateTime")
    match value:
        case bool():
            return None
        case int() | float() | Decimal():
            try:
                moment = _EPOCH + timedelta(seconds=float(value))
            except (OverflowError, ValueError):
                return None
        case datetime():
            moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        case date():
            moment = datetime(value.year, value.month, value.day, tzinfo=UTC)
        case _:
            return None
    return (moment - _EPOCH) // _MICROSECOND


def moment_at(time: int) -> datetime:
    """The moment that is so many microseconds after 1970 began, UTC."""
    return _EPOCH + time * _MICROSECOND


def written(value: object) -> tuple[str, str] | None:
    """The text and the datatype of a value of Python; None for one that no literal stands for."""
    match value:
        case datetime():
            moment = value if value.tzinfo is None else value.astimezone(UTC)
            text = moment.replace(tzinfo=None).isoformat()
            text = text.rstrip("0") if moment.microsecond else text
            return (text if value.tzinfo is None else f"{text}Z"), f"{XSD}dateTime"
        case date():
            return value.isoformat(), f"{XSD}date"
        case time():
            if value.tzinfo is not None:
                return None
            return (value.isoformat().rstrip("0") if value.microsecond else value.isoformat()), f"{XSD}time"
        case timedelta():
            return _duration_text(value), f"{XSD}dayTimeDuration"
        case Decimal() if value.is_finite():
            return _decimal_text(value), f"{XSD}precisionDecimal"
    return None


def read(text: str, datatype: str) -> Moment | None:
    """The value of a literal; None where it has none here."""
    reader = _READERS.get(datatype.removeprefix(XSD)) if datatype.startswith(XSD) else None
    try:
        return None if reader is None else reader(text)
    except (ValueError, OverflowError, InvalidOperation):
        return None


def _duration_text(value: timedelta) -> str:
    sign, rest = ("-", -value) if value < timedelta(0) else ("", value)
    hours, seconds = divmod(rest.seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    fraction = f".{rest.microseconds:06}".rstrip("0").rstrip(".")
    parts = (
        f"{hours}H" if hours else "",
        f"{minutes}M" if minutes else "",
        f"{seconds}{fraction}S" if seconds or fraction else "",
    )
    clock = "".join(parts)
    days = f"{rest.days}D" if rest.days else ""
    return f"{sign}P{days}T{clock}" if clock else f"{sign}P{days}" if days else "PT0S"


def _decimal_text(value: Decimal) -> str:
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _date_time(text: str) -> datetime | None:
    found = _DATE_TIME.fullmatch(text)
    return None if found is None else datetime.fromisoformat(_full(f"{found[1]}T{found[2]}", found[3], found[4]))


def _time(text: str) -> time | None:
    found = _TIME_ALONE.fullmatch(text)
    return None if found is None or found[3] else time.fromisoformat(_full(found[1], found[2], None))


def _full(clock: str, fraction: str | None, zone: str | None) -> str:
    return clock + (f".{fraction:0<6}" if fraction else "") + (zone or "").replace("Z", "+00:00")


def _date(text: str) -> date | None:
    return date.fromisoformat(text) if _DATE.fullmatch(text) else None


def _duration(text: str) -> timedelta | None:
    found = _DURATION.fullmatch(text)
    if found is None or text.endswith(("P", "T")):
        return None
    sign, days, hours, minutes, seconds, fraction = found.groups()
    micro = int(f"{fraction:0<6}") if fraction else 0
    length = timedelta(int(days or 0), int(seconds or 0), micro, 0, int(minutes or 0), int(hours or 0))
    return -length if sign else length


def _decimal(text: str) -> Decimal | None:
    return Decimal(text) if _DECIMAL.fullmatch(text) and len(text) <= _MOST_DIGITS else None


def _integer(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) and len(text) <= _MOST_DIGITS else None


_READERS = {
    "dateTime": _date_time,
    "dateTimeStamp": _date_time,
    "date": _date,
    "time": _time,
    "dayTimeDuration": _duration,
    "duration": _duration,
    "precisionDecimal": _decimal,
    "integer": _integer,
}
