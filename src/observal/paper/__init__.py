"""All of the paper: Yan, Chaudhuri and Javidi, "The Label Complexity of Active Learning from Observational Data" (NeurIPS 2019).

Where each part of it is:

===================================================  ==================================================================
in the paper                                         here
===================================================  ==================================================================
**Learning from the log**
clipped loss l, second moment V̂, objective           ``risk.RiskSums``, ``risk.risk_sums``
``thm:paper-smr-erm-gen``, ``cor:paper-gen-err``     ``bounds.second_moment_erm_bound``, ``bounds.clipped_erm_bound``
``thm:general-err-bnd``                              ``bounds.general_erm_bound``; with a proof, ``bounds.safe_erm_bound``
clip threshold M0 (``prop:opt-c``)                   ``weights.passive_clip_threshold``
**Key techniques**
1, candidate sets and V̂(h1, h2)                      ``risk.pair_sums``, ``bounds.candidate_slack``
2, multiple importance sampling                      ``weights.importance``; without it, ``weights.plain_importance``
3, the query policy (``prop:Q-simplified``)          ``weights.query_policy``, ``weights.online_mass``,
                                                     ``label_complexity.query_policy_bound``
**Algorithm 1**                                      ``exact.ExactDBAL``
M_k, step 1                                          ``weights.clip_threshold``
δ_k, σ1 and σ2, γ1                                   ``bounds.epoch_confidence``, ``candidate_slack``, ``certified_gamma``
H and its restriction to rows                        ``hypotheses``; enumerated in ``geometry``, stored in ``dichotomies``
epochs τ_k                                           ``epochs``
**Theory**
``thm:gen``, ``cor:var-gen``, ``cor:gen``            ``bounds.deviation_bound``, ``second_moment_deviation``, ``difference_bound``
``thm:Convergence``                                  ``label_complexity.convergence_bound``
``thm:Label-Complexity``                             ``label_complexity.label_complexity_bound``
θ and θ̃                                              ``disagreement.disagreement_coefficient``
Discussion, seven label complexities                 ``label_complexity.label_complexity_rows``
**Appendix "Experiments"**
the algorithm as it was run                          ``active_vc.ActiveVC``; its clip, ``weights.practical_clip_threshold``
the two it is compared with                          ``passive.Passive``, ``active18.Active18``
what the three share                                 ``linear_methods``
online gradient descent                              ``kernels.gradient``
===================================================  ==================================================================

Two intervals are ours: ``risk.uniform_error_interval`` for finite classes and ``linear_methods.linear_error_interval``. Every
statement is checked by ``observal-research verify``, and the figure is made by ``observal-research reproduce``.
"""

from observal.paper.active18 import Active18
from observal.paper.active_vc import ActiveVC
from observal.paper.exact import ExactDBAL
from observal.paper.passive import Passive

__all__ = ["Active18", "ActiveVC", "ExactDBAL", "Passive"]
