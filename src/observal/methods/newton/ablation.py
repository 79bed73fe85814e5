"""NewtonVC with some of its fixed parts changed, for measuring what each part is worth."""

from __future__ import annotations

from dataclasses import dataclass

from observal.checks import check_numbers
from observal.errors import InvalidInput
from observal.methods.newton.method import NewtonVC, Parts


@dataclass(frozen=True)
class AblatedNewtonVC(NewtonVC):
    """NewtonVC with other parts than the fixed ones; it cannot be stored in a campaign.

    Parameters
    ----------
    clip_constant, penalty, curvature, doubt, return_earlier
        See :class:`~observal.methods.newton.method.Parts`.
    **settings
        As for :class:`~observal.methods.NewtonVC`.

    Examples
    --------
    >>> AblatedNewtonVC(clip_constant=None).parts
    Parts(clip_constant=None, penalty=0.0, curvature=True, doubt=0.05, return_earlier=True)
    """

    clip_constant: float | None = Parts().clip_constant
    penalty: float = Parts().penalty
    curvature: bool = Parts().curvature
    doubt: float = Parts().doubt
    return_earlier: bool = Parts().return_earlier

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, "penalty", "doubt", *(() if self.clip_constant is None else ("clip_constant",)))
        if not (self.clip_constant is None or self.clip_constant > 0.0):
            raise InvalidInput(f"clip_constant must be above 0, but is {self.clip_constant}; None clips nothing.")
        if not (self.penalty >= 0.0 and 0.0 < self.doubt < 0.5 and isinstance(self.curvature, bool)):
            raise InvalidInput(
                "penalty must be at least 0, doubt between 0 and 0.5 and curvature True or False, but they are "
                f"{self.penalty}, {self.doubt} and {self.curvature!r}."
            )

    @property
    def parts(self) -> Parts:
        """The parts as given."""
        return Parts(self.clip_constant, self.penalty, self.curvature, self.doubt, self.return_earlier)
