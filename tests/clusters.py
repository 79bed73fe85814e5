"""Dask without Dask: for tests of when a cluster is started and closed, which need none."""

from __future__ import annotations

import logging
import threading

import distributed

from observal.parquet.cluster import Cluster


def without_dask(monkeypatch):
    """Return the list of clients that will be made; what they are given is computed in this process."""
    clients = []

    class Local:
        def __init__(self, **_):
            logging.getLogger("distributed.core").error("a worker is slow")
            self.closed = threading.Event()

        def close(self):
            self.closed.set()

    class Client:
        def __init__(self, cluster, **_):
            self.cluster, self.status = cluster, "running"
            clients.append(self)

        def close(self):
            self.status = "closed"

    monkeypatch.setattr(distributed, "LocalCluster", Local)
    monkeypatch.setattr(distributed, "Client", Client)
    monkeypatch.setattr(Cluster, "map", lambda self, function, items: map(function, items))
    return clients
