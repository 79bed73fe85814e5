"""NewtonVC with some of its fixed parts changed, for measuring what each part is worth."""

from __future__ import annotations

from dataclasses import dataclass

from observal.checks import check_flag, check_number, keep
from observal.methods.newton import FixedSettings, NewtonVC


@dataclass(frozen=True)
class AblatedNewtonVC(NewtonVC):
    """NewtonVC with other parts than the fixed ones; it cannot be stored in a campaign.

    Parameters
    ----------
    clip_constant, penalty, curvature, doubt, return_earlier
        See ``FixedSettings``.
    **settings
        As for ``NewtonVC``.

    Examples
    --------
    >>> AblatedNewtonVC(clip_constant=None).fixed
    FixedSettings(clip_constant=None, penalty=0.0, curvature=True, doubt=0.05, return_earlier=True)
    """

    clip_constant: float | None = FixedSettings().clip_constant
    penalty: float = FixedSettings().penalty
    curvature: bool = FixedSettings().curvature
    doubt: float = FixedSettings().doubt
    return_earlier: bool = FixedSettings().return_earlier

    def __post_init__(self) -> None:
        super().__post_init__()
        clip_constant = self.clip_constant
        if clip_constant is not None:
            clip_constant = check_number(clip_constant, "clip_constant", 0.0, open_low=True, fix="None clips nothing")
        keep(
            self,
            clip_constant=clip_constant,
            penalty=check_number(self.penalty, "penalty", 0.0),
            curvature=check_flag(self.curvature, "curvature"),
            doubt=check_number(self.doubt, "doubt", 0.0, 0.5, open_low=True, open_high=True),
            return_earlier=check_flag(self.return_earlier, "return_earlier"),
        )

    @property
    def fixed(self) -> FixedSettings:
        """The settings as given."""
        return FixedSettings(self.clip_constant, self.penalty, self.curvature, self.doubt, self.return_earlier)
