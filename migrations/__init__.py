"""The database's history, one step a file. A step that has been released never changes; the next one is a new file."""
