"""``python -m observal_research`` is the command line of the research around observal."""

from observal_research.cli import main

main()
