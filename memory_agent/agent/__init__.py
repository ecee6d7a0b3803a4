"""MemoryAgent: the public calls on one user's thread, one module for each noun."""
