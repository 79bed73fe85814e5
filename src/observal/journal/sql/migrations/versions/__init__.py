"""One file per revision, run in order, never changed once released."""
