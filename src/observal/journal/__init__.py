"""The loop of asking and telling, written once: a journal of what happened, what follows from it, and where it is kept.

``events`` are the journal's entries, ``ledger`` what they add up to, ``replay`` what the method makes of them, ``loop`` the verbs.
A journal is kept in memory (``memory``), in a session's file (``session_file``) or in a database (``sql``).
"""
