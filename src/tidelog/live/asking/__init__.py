"""What a knowledge base is asked: queries, proofs, what violates constraints, what an update would change.

Knows: what was committed, and the update in work. Must not know: how updates come in, who waits for answers.
"""
