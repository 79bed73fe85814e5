"""Classifiers trained on importance-weighted rows; ``BlendClassifier`` and ``LoggedClassifier`` are public.

Nothing is imported here: NewtonVC's own fit needs no scikit-learn, which takes a second to import.
"""
