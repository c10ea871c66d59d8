"""The folder that a search writes its results into: pairs, groups, plan, pages."""
