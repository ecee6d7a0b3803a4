"""The facts tier: from what turns state to what is known.

In the order of a statement's way: `request` (what is asked), `extractors` and `replies` (what is found), `vetting` and
`echo` (what is believed), `merge`, `tree`, `order`, `steps` and `fold` (what that makes known; `known` for the vetting, `people` for whose it is), `keeper` (the stage, and reading),
`edits` (what people say themselves). All but `extractors`, `keeper` and `edits` are pure.
"""
