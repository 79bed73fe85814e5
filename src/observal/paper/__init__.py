"""All of the paper: Yan, Chaudhuri and Javidi, "The Label Complexity of Active Learning from Observational Data" (NeurIPS 2019).

Where each part of it is:

===================================================  ==================================================================
in the paper                                         here
===================================================  ==================================================================
**Learning from the log**
clipped loss l, second moment V̂, objective           :class:`risk.RiskSums`, :func:`risk.risk_sums`
``thm:paper-smr-erm-gen``, ``cor:paper-gen-err``     :func:`bounds.second_moment_erm_bound`, :func:`bounds.clipped_erm_bound`
``thm:general-err-bnd``                              :func:`bounds.general_erm_bound`; with a proof, :func:`bounds.safe_erm_bound`
clip threshold M0 (``prop:opt-c``)                   :func:`weights.passive_clip_threshold`
**Key techniques**
1, candidate sets and V̂(h1, h2)                      :func:`risk.pair_sums`, :func:`bounds.candidate_slack`
2, multiple importance sampling                      :func:`weights.importance`; without it, :func:`weights.plain_importance`
3, the query policy (``prop:Q-simplified``)          :func:`weights.query_policy`, :func:`weights.online_mass`,
                                                     :func:`label_complexity.query_policy_bound`
**Algorithm 1**                                      :class:`exact.ExactDBAL`
M_k, step 1                                          :func:`weights.clip_threshold`
δ_k, σ1 and σ2, γ1                                   :func:`bounds.epoch_confidence`, ``candidate_slack``, ``certified_gamma``
H and its restriction to rows                        :mod:`hypotheses`; enumerated in :mod:`geometry`, stored in :mod:`dichotomies`
epochs τ_k                                           :mod:`epochs`
**Theory**
``thm:gen``, ``cor:var-gen``, ``cor:gen``            :func:`bounds.deviation_bound`, ``second_moment_deviation``, ``difference_bound``
``thm:Convergence``                                  :func:`label_complexity.convergence_bound`
``thm:Label-Complexity``                             :func:`label_complexity.label_complexity_bound`
θ and θ̃                                              :func:`disagreement.disagreement_coefficient`
Discussion, seven label complexities                 :func:`label_complexity.label_complexity_rows`
**Appendix "Experiments"**
the algorithm as it was run                          :class:`active_vc.ActiveVC`; its clip, :func:`weights.practical_clip_threshold`
the two it is compared with                          :class:`passive.Passive`, :class:`active18.Active18`
what the three share                                 :mod:`linear_methods`
online gradient descent                              :mod:`kernels.gradient`; for scikit-learn, :class:`gradient_classifier.GradientClassifier`
===================================================  ==================================================================

Two intervals are ours: :func:`risk.uniform_error_interval` for finite classes and :func:`linear_methods.linear_error_interval`. Every
statement is checked by ``observal-research verify``, and the figure is made by ``observal-research reproduce``.
"""

from observal.paper.active18 import Active18
from observal.paper.active_vc import ActiveVC
from observal.paper.exact import ExactDBAL
from observal.paper.passive import Passive

__all__ = ["Active18", "ActiveVC", "ExactDBAL", "Passive"]
