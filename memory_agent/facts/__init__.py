"""The facts tier: from what turns state to what is known.

In the order of a statement's way: `extractors` (what is asked, and found), `vetting` (what is believed), `merge`,
`tree` and `fold` (what that makes known), `documents` and `keeper` (the stage, and reading), `edits` (what people say
themselves). `vetting`, `merge`, `tree` and `fold` are pure.
"""
