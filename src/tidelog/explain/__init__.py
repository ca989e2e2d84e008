"""Why a fact holds, and why one does not: proofs, found on demand in the materialisation.

`explainer` answers the knowledge base. `search` discovers what lies behind a fact (kernels in `cone`), with rules that
`backwards` reads from their heads; `closure_proofs` finds proofs in large closures; `writing` turns what was found into
a `Proof`. Knows: rules, plans, and the facts of an engine between updates. Must not know: updates, files, how facts
came in.
"""
