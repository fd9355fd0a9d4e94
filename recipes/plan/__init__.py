"""Plan: one table for a whole matrix from config.json alone: what works, what each variant takes, where it runs.

Departs from stages lower, lint and fit in that nothing is kept: it is the look before the leap. Every variant of target
inf2 is lowered and judged, counted by `recipes.fit`, and put on the cheapest instance that holds it.
"""
