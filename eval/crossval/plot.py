"""The reliability diagram: what was said beside what was found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_NAMES: Final = {
    "itp_natural": "speak now (every turn)",
    "rpp": "pattern",
    "stp": "target",
    "ssp": "strategy",
}


def reliability(calibration: Mapping[str, Any], file: Path) -> None:
    """Draw one curve per decision from out-of-fold probabilities; bins of at least 20 answers."""
    # imported here: takes half a second and is needed for this one picture
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1, label="as often as said")
    for task, name in _NAMES.items():
        bins = [b for b in calibration[task]["bins"] if b["n"] >= 20]
        said, found = [b["said"] for b in bins], [b["found"] for b in bins]
        label = f"{name}, ECE {calibration[task]['ece']:.3f}"
        axes.plot(said, found, marker="o", markersize=4, linewidth=1.2, label=label)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability said", ylabel="share found right")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    file.parent.mkdir(parents=True, exist_ok=True)
    # no date and no version inside: the same figures give the same file
    figure.savefig(file, dpi=130, metadata={"Software": None})
    plt.close(figure)
