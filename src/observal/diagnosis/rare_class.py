"""Whether a class is rare according to the log: then the fewest mistakes are seldom what people want."""

from __future__ import annotations

from shlex import quote

import numpy as np

from observal.problem.data import LoggedData
from observal.problem.objectives import RARE
from observal.problem.words import WARNING, percent

MIN_LABELS = 20  # labels in the log; with fewer, nothing is reported


def rare_class_notes(logged: LoggedData) -> list[str]:
    """Return a warning with the option to use if one of two classes is rare; otherwise nothing.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.where(np.arange(200) % 40 == 0, "default", "paid")
    >>> log = LoggedData(np.zeros((200, 1)), y, 0.5, classes=["paid", "default"])
    >>> rare_class_notes(log)[0][:74]
    "Warning: 'default' is rare: about 2.5% of the rows. A model that makes few"
    """
    if logged.classes.size != 2 or int(np.asarray(logged.revealed).sum()) < MIN_LABELS:
        return []
    shares = logged.class_shares()
    rare = int(np.argmin(shares))
    if shares[rare] >= RARE:
        return []
    name = str(logged.classes[rare])
    positive = "" if rare == 1 else f" and --positive {quote(name)}"
    return [
        f"{WARNING}{name!r} is rare: about {percent(float(shares[rare]))} of the rows. A model that makes few mistakes hardly ever predicts it; if finding it "
        f"matters more, make the campaign with --target recall=0.8{positive} (objective='recall=0.8')."
    ]
