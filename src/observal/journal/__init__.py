"""The loop of asking and telling, shared by sessions and campaigns.

``events`` has the journal's entries, ``ledger`` the state that they add up to, ``replay`` the method's states, and ``loop`` the
verbs. A journal is stored in memory (``memory``), in a session's file (``session_file``) or in a database (``sql``).
"""
