"""Stores as earlier versions wrote them: what later ones must be able to open.

`0.1.0` is the release's; `schema-10` was written by the commit before schema 11, with a move to another embedding
model under way: all users moved, and the former vectors still there; `schema-12` by the last commit without the zones of turns.
"""
