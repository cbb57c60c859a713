"""What can be refused before any GPU is taken: rules over a model's shape, a build's flags and what a cell asks."""
