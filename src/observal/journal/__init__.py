"""The ask-and-tell loop shared by sessions and campaigns.

``events`` defines the journal's entries, ``ledger`` the state they add up to, ``replay`` the method's states,
and ``engine`` the operations. A journal is stored in memory (``memory``), in a session's file
(``session_file``) or in a database (``sql``).
"""
