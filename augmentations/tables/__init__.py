"""Tables of edits, one per family: the probability of each edit and how its parameters are drawn."""
