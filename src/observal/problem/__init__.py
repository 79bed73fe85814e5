"""What a run passes around: log and pool, rows, goals, plans, results, and the interface of a method."""
