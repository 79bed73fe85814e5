"""Results as figures and HTML pages."""
