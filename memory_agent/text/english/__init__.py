"""English: word lists and rules, as data."""
