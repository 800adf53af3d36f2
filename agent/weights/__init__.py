"""What the local policy was taught: fitted on the train split, see MODEL_CARD.md."""
