"""Measurements that others can run: `python -m benchmarks.recall FILE`, `python -m benchmarks.speed`."""
