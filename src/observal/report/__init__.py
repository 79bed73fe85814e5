"""Edge: results as tables, figures and pages."""
