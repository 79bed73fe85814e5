"""Research around observal: the paper's claims, its figure, ablations, and the benchmark against peers. observal never imports it."""
