"""What clients ask: answers, facts, rules, proofs, and changes that were made or could be made."""
