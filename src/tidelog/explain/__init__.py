"""Why a fact holds, and why one does not: proofs, found on demand in the materialisation."""
