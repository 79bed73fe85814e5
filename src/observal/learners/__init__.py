"""Classifiers that train on importance-weighted rows; ``ob.GradientClassifier`` and ``ob.LoggedClassifier`` are public.

Nothing is imported here: NewtonVC's own fit needs no scikit-learn, which takes a second to import.
"""
