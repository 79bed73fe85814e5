"""What comes from and goes to other programs: labelling tools, other libraries' interfaces, model files.

Each is imported on demand; if its library is missing, the error says what to install.
"""
