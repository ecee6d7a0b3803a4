"""What English users plainly state about themselves, as facts."""
