"""``python -m observal`` is the command line."""

from observal.cli import main

main()
