"""The files a person writes: YAML 1.2 with the line of every key."""
