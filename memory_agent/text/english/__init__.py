"""What is English: word lists and rules, as data."""
