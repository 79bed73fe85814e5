"""Whether a campaign is finished is said as soon as it is so."""

from __future__ import annotations

from tests.campaigns import make_campaign, truth_of


def answer(campaign, n):
    batch = campaign.ask(n)
    campaign.tell(batch.ids, [truth_of(i) for i in batch.ids])
    return batch


def test_last_label_of_budget_finishes_campaign(tmp_path):
    campaign = make_campaign(tmp_path / "c.db", label_budget=8)
    assert campaign.status().stopped == ""
    answer(campaign, 7)
    assert campaign.status().stopped == ""
    last = answer(campaign, 1)
    assert campaign.status().stopped == "the label budget of 8 is spent"
    assert ("state", "finished: the label budget of 8 is spent") in campaign.status().lines()
    # A label taken back leaves one to buy.
    campaign.tell(last.ids, [None], correct=True)
    assert campaign.status().stopped == ""
    assert len(campaign.ask()) == 1


def test_without_budget_only_method_finishes_campaign(tmp_path):
    campaign = make_campaign(tmp_path / "c.db", label_budget=None)
    answer(campaign, 8)
    assert campaign.status().stopped == ""


def test_budget_of_zero_is_spent_at_once(tmp_path):
    assert make_campaign(tmp_path / "c.db", label_budget=0).status().stopped == "the label budget of 0 is spent"
