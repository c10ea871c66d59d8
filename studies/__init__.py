"""What three papers add to the pipeline, a room for each: the core imports none of them, a recipe names what they have."""
