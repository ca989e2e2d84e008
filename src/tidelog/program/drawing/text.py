"""The hyper rule dependency graph as text for Graphviz and Mermaid; solid arrows are positive, dashed ones strict."""

from __future__ import annotations

from tidelog.program.drawing.picture import Box, Fate, Line, Picture, Touch

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
        fill, border = FRAME_COLOURS[box.touch]
        lines.append(f"  subgraph cluster_{box.name} {{")
        lines.append(f'    label={_dot_text(title(box))}; fillcolor="{fill}"; color="{border}";')
        for line in box.lines:
            fill, border = RULE_COLOURS[line.fate]
            text = _dot_text(f"r{line.number}  {line.text}")
            lines.append(f'    {_node(box, line)} [label={text}, fillcolor="{fill}", color="{border}"];')
        lines.append("  }")
    first = {box.name: _node(box, box.lines[0]) for box in picture.boxes}
    for arrow in picture.arrows:
        clusters = f"ltail=cluster_{arrow.source}, lhead=cluster_{arrow.target}"
        style = ", style=dashed" if arrow.strict else ""
        label = _dot_text(", ".join(arrow.predicates))
        lines.append(f"  {first[arrow.source]} -> {first[arrow.target]} [{clusters}, label={label}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


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
    for arrow in picture.arrows:
        link = "-.->" if arrow.strict else "-->"
        lines.append(f'  {arrow.source} {link}|"{_mermaid_text(", ".join(arrow.predicates))}"| {arrow.target}')
    for box in picture.boxes:
        colours = {box.name: FRAME_COLOURS[box.touch]}
        colours |= {_node(box, line): RULE_COLOURS[line.fate] for line in box.lines}
        for name, (fill, border) in colours.items():
            lines.append(f"  style {name} fill:{fill},stroke:{border},color:#1f2328")
    return "\n".join(lines) + "\n"


def _mermaid_text(text: str) -> str:
    """Text for a quoted label: everything that Mermaid or its HTML could read as markup becomes character codes."""
    return "".join(f"#{ord(letter)};" if letter in '"#<>&`\\*_[]' else letter for letter in text)
