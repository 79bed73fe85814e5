"""What a run passes around: log and pool, rows, goals, plans, results, and what a method must have."""
