"""Compiled loops of the paper's methods: arrays and scalars in, arrays out."""
