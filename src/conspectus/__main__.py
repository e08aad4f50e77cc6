"""`python -m conspectus` is the command line."""

from .cli import main

main()
