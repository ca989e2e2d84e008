"""Plans as words, and the one executor that runs them.

Knows: words of plans, records, terms as numbers, closures as relations. Must not know: who makes a plan, and what is
done with a match.
"""
