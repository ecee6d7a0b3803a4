"""Real servers as processes and threads: nothing here imports pytest."""
