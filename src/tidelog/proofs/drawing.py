"""A proof in a notebook: facts in frames, with the rules that derive them, from the explicit ones on the left to the
conclusion on the right. A proof that is too large for a picture is drawn as text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from tidelog.program.drawing.frames import Colours, Frame, FrameLine, Key, Link, draw
from tidelog.proofs.proof import Line, Proof, html_text

MOST_STEPS = 40
HIGHEST = 8

_EXPLICIT: Colours = ("#ddf4ff", "#54aeff")
_DERIVED: Colours = ("#f6f8fa", "#8c959f")
_CHANGED: dict[str, Colours] = {"new": ("#ddf4e1", "#2d8a46"), "gone": ("#fdecec", "#cf3a3a")}
_RULE: Colours = ("#ffffff", "#b6bec8")


def proof_html(proof: Proof, lines: Iterable[Line], mark: str = "", marked: Collection[str] = ()) -> str:
    """A picture of a proof, or its `lines` where it is large. Facts and conditions that are `marked` are new, or gone:
    `mark` says which.
    """
    if proof.height > HIGHEST or len(list(islice(proof.steps(), MOST_STEPS + 1))) > MOST_STEPS:
        return html_text(lines)
    return f'<div style="overflow-x: auto">{proof_svg(proof, mark, marked)}</div>'


def proof_svg(proof: Proof, mark: str = "", marked: Collection[str] = ()) -> str:
    """The picture as a complete SVG document."""
    steps = sorted(proof.steps(), key=lambda step: step.height)
    numbers = {id(step): number for number, step in enumerate(steps)}
    edges = dict.fromkeys(
        (numbers[id(premise)], number) for number, step in enumerate(steps) for premise in step.premises
    )
    legend = [Key("explicit", _EXPLICIT), Key("derived", _DERIVED)]
    if marked:
        legend.append(Key(mark, _CHANGED[mark]))
    return draw([_frame(step, mark, marked) for step in steps], [Link(*edge) for edge in edges], legend)


def _frame(step: Proof, mark: str, marked: Collection[str]) -> Frame:
    texts = [*([] if step.rule is None else [step.rule]), *step.conditions]
    lines = tuple(FrameLine(text, text, _CHANGED[mark] if text in marked else _RULE) for text in texts)
    if step.fact in marked:
        return Frame(f"{step.fact}  ← {mark}", lines, _CHANGED[mark])
    return Frame(step.fact, lines, _EXPLICIT if step.rule is None else _DERIVED)
