"""Conformance: whether somebody's store, vector index, embedder or language model keeps the contracts of `memory_agent.ports`."""
