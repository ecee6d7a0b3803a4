"""What is Korean: word lists and rules, as data."""
