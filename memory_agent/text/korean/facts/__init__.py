"""Facts that Korean users plainly state about themselves."""
