#!/usr/bin/env python3
"""The nightly sweep, for cron: `memory-agent sweep` with the arguments given here. See config/crontab.example."""

import sys

from memory_agent.cli import main

if __name__ == "__main__":
    sys.argv = ["memory-agent", "sweep", *sys.argv[1:]]
    main()
