"""Classifiers that train on importance-weighted rows; those for scikit-learn are ``ob.GradientClassifier``, ``ob.LoggedClassifier``.

Nothing is imported here: NewtonVC's own fit needs no scikit-learn, which takes a second to import.
"""
