"""`python -m memory_agent.cli`: the same as the command `memory-agent`."""

from memory_agent.cli import main

if __name__ == "__main__":
    main()
