"""Pictures that are drawn, with copies of known origin and classes of shapes: a data set where none can be downloaded."""
