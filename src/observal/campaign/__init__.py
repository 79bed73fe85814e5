"""Durable campaigns: a database that keeps log, pool, every decision and every answer, for days and several people."""

from observal.campaign.agreement import Agreement, agreement
from observal.campaign.campaign import ANYONE, Campaign
from observal.campaign.model import load_model
from observal.campaign.results import Batch, Check, Entry, Receipt, Status

__all__ = ["ANYONE", "Agreement", "Batch", "Campaign", "Check", "Entry", "Receipt", "Status", "agreement", "load_model"]
