"""Other memories' searches on the same recall sets, by the same scorer: `python -m benchmarks.peers FILE --peer all`."""
