"""What ddqueue does, one use case a file; everything it touches comes through the ports."""
