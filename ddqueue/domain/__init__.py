"""What ddqueue knows without touching anything: no I/O, no clock, no randomness of its own."""
