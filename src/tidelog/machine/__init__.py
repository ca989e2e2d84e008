"""What all kernels share: registers, vocabularies, memory, compilation, and the kernels below all others.

- Vocabularies, each imported under one letter: `registers` as `M`, `work_lists` as `L`, `flags` as `F`,
  `relation_fields` as `R`, `index_fields` as `X`, `plan_words` as `P`, `term_kinds` as `K`, `work_kinds` as `W`.
- Compilation and raw access to memory: `jit`, `bits`.
- Memory that cannot be wrong in silence: `ownership` knows which addresses belong to an array, and `guard` compiles the
  check. Plain Python (`NUMBA_DISABLE_JIT=1`) checks every access, and so do kernels compiled with `TIDELOG_CHECKED=1`.
- Arrays: `array_memory`, `growth`. Facts: `fact_kernels`, `hash_tables`, `counters`.

Knows: memory and records. Must not know: rules, plans as they are made, updates.
"""
