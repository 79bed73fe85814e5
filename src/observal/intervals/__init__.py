"""How wrong the classifier may be: cells, trend, measures, thresholds, looks and stopping."""
