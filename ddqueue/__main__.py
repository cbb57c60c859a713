"""`python -m ddqueue`: the command line, by the interpreter that runs it."""

from ddqueue.cli.main import main

main()
