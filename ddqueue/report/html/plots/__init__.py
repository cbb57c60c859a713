"""Plots as inline SVG: what a chart is, its scales, and how it is drawn.

Written by hand rather than with matplotlib: an inline SVG takes its colours from the page's style sheet, so that one
drawing serves the light theme, the dark one and paper, its text stays text, and a page costs kilobytes and milliseconds
where matplotlib costs a second of imports and one picture a theme.
"""
