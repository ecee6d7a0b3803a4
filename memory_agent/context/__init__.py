"""The context that a model reads: gathered, assembled within a budget, rendered."""
