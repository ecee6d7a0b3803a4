"""What Korean users plainly state about themselves, as facts."""
