"""Adapters to other libraries' interfaces; each is imported only on demand, and says what to install where it cannot be."""
