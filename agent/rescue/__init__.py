"""The RESCUE format: schema, reader, the annotations' semantics, and the splits."""

from agent.rescue.reader import (
    DataError,
    Dataset,
    Fault,
    load_dataset,
    parse_sample,
    read_dataset,
)
from agent.rescue.schema import (
    BackgroundUtterance,
    Emotion,
    Interaction,
    Observation,
    Row,
    Sample,
    Strategy,
    Viewpoint,
)

__all__ = [
    "BackgroundUtterance",
    "DataError",
    "Dataset",
    "Emotion",
    "Fault",
    "Interaction",
    "Observation",
    "Row",
    "Sample",
    "Strategy",
    "Viewpoint",
    "load_dataset",
    "parse_sample",
    "read_dataset",
]
