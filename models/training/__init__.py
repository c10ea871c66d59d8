"""The trainer: stages, batches, schedules, drip training, the state to resume from, and the plan before it starts."""
