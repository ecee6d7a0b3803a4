"""Facts that English users plainly state about themselves."""
