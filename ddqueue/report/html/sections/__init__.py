"""One section a module: each takes the report's data and gives a section, or None where there is nothing to say."""
