"""How likely each edit is and how its parameters are drawn, one table for each family of edits."""
