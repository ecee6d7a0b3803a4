"""Topics: assigned, packed, curated, faded and swept."""
