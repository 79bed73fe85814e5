"""Adapters to the interfaces of other libraries. Each is imported on demand; if its library is missing, the error says what to install."""
