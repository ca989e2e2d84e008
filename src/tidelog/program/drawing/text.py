"""The hyper rule dependency graph as text for Graphviz and Mermaid; solid arrows are positive, dashed ones strict."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.program.drawing.picture import Arrow, Box, Fate, Line, Picture, Touch

# Fill and border of a frame.
FRAME_COLOURS = {
    Touch.NONE: ("#f6f8fa", "#8c959f"),
    Touch.DIRECT: ("#ffe8bf", "#c77700"),
    Touch.REACHED: ("#fff8e1", "#d3b65c"),
    Touch.GONE: ("#fdecec", "#cf3a3a"),
}
# Fill and border of a rule.
RULE_COLOURS = {
    Fate.KEPT: ("#ffffff", "#b6bec8"),
    Fate.ADDED: ("#ddf4e1", "#2d8a46"),
    Fate.REMOVED: ("#ffffff", "#cf3a3a"),
}


def title(box: Box) -> str:
    """The line above the rules of a box."""
    name = "" if box.touch is Touch.GONE else box.name
    parts = (name, "recursive" if box.recursive and name else "", box.note)
    return " · ".join(part for part in parts if part)


def _node(box: Box, line: Line) -> str:
    return f"{box.name}_r{line.number}"


# ── Graphviz ─────────────────────────────────────────────────────────────────────────────────────────────────────


def to_dot(picture: Picture) -> str:
    """The picture in the language of Graphviz, hyper-nodes as clusters."""
    lines = [
        "digraph rules {",
        "  rankdir=LR; compound=true;",
        '  graph [fontname="Helvetica", fontsize=11, style="rounded,filled"];',
        '  node [shape=box, style="rounded,filled", fontname="Courier", fontsize=11];',
        '  edge [fontname="Helvetica", fontsize=9, color="#57606a"];',
    ]
    for box in picture.boxes:
        lines.extend(_dot_cluster(box))
    boxes = {box.name: box for box in picture.boxes}
    lines.extend(_dot_arrow(arrow, boxes[arrow.source], boxes[arrow.target]) for arrow in picture.arrows)
    return "\n".join([*lines, "}"]) + "\n"


def _dot_cluster(box: Box) -> Iterator[str]:
    fill, border = FRAME_COLOURS[box.touch]
    yield f"  subgraph cluster_{box.name} {{"
    yield f'    label={_dot_text(title(box))}; fillcolor="{fill}"; color="{border}";'
    for line in box.lines:
        fill, border = RULE_COLOURS[line.fate]
        text = _dot_text(f"r{line.number}  {line.text}")
        yield f'    {_node(box, line)} [label={text}, fillcolor="{fill}", color="{border}"];'
    yield "  }"


def _dot_arrow(arrow: Arrow, source: Box, target: Box) -> str:
    ends = f"{_node(source, source.lines[0])} -> {_node(target, target.lines[0])}"
    style = ", style=dashed" if arrow.strict else ""
    clusters = f"ltail=cluster_{source.name}, lhead=cluster_{target.name}"
    return f"  {ends} [{clusters}, label={_dot_text(', '.join(arrow.predicates))}{style}];"


def _dot_text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# ── Mermaid ──────────────────────────────────────────────────────────────────────────────────────────────────────


def to_mermaid(picture: Picture) -> str:
    """The picture as a Mermaid flowchart, hyper-nodes as subgraphs."""
    lines = ["flowchart LR"]
    for box in picture.boxes:
        lines.append(f'  subgraph {box.name}["{_mermaid_text(title(box))}"]')
        lines.extend(f'    {_node(box, line)}["r{line.number}  {_mermaid_text(line.text)}"]' for line in box.lines)
        lines.append("  end")
    lines.extend(_mermaid_arrow(arrow) for arrow in picture.arrows)
    lines.extend(_mermaid_styles(picture))
    return "\n".join(lines) + "\n"


def _mermaid_arrow(arrow: Arrow) -> str:
    link = "-.->" if arrow.strict else "-->"
    return f'  {arrow.source} {link}|"{_mermaid_text(", ".join(arrow.predicates))}"| {arrow.target}'


def _mermaid_styles(picture: Picture) -> Iterator[str]:
    for box in picture.boxes:
        yield f"  style {box.name} {_mermaid_colours(FRAME_COLOURS[box.touch])}"
        for line in box.lines:
            yield f"  style {_node(box, line)} {_mermaid_colours(RULE_COLOURS[line.fate])}"


def _mermaid_colours(colours: tuple[str, str]) -> str:
    fill, border = colours
    return f"fill:{fill},stroke:{border},color:#1f2328"


def _mermaid_text(text: str) -> str:
    """Text for a quoted label: everything that Mermaid or its HTML could read as markup becomes character codes."""
    return "".join(f"#{ord(letter)};" if letter in '"#<>&`\\*_[]' else letter for letter in text)
