"""The hyper rule dependency graph as an SVG image: rules in frames, arrows between frames."""

from __future__ import annotations

from tidelog.program.drawing.frames import Frame, FrameLine, Key, Link, draw
from tidelog.program.drawing.picture import Box, Fate, Picture, Touch
from tidelog.program.drawing.text import FRAME_COLOURS, RULE_COLOURS, title

_ARROWS = (Key("reads"), Key("reads under negation or an aggregate", dashed=True))
_TOUCHES = tuple(Key(touch.value, FRAME_COLOURS[touch]) for touch in (Touch.DIRECT, Touch.REACHED, Touch.GONE))


def to_svg(picture: Picture) -> str:
    """The picture as a complete SVG document."""
    numbers = {box.name: number for number, box in enumerate(picture.boxes)}
    links = [
        Link(numbers[arrow.source], numbers[arrow.target], ", ".join(arrow.predicates), arrow.strict)
        for arrow in picture.arrows
    ]
    of_an_update = any(box.touch is not Touch.NONE for box in picture.boxes)
    return draw([_frame(box) for box in picture.boxes], links, (*_ARROWS, *(_TOUCHES if of_an_update else ())))


def _frame(box: Box) -> Frame:
    lines = [
        FrameLine(f"r{line.number}  {line.text}", line.text, RULE_COLOURS[line.fate], line.fate is Fate.REMOVED)
        for line in box.lines
    ]
    return Frame(title(box), tuple(lines), FRAME_COLOURS[box.touch], box.touch is Touch.GONE)
