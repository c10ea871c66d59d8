"""Where pictures come from: folders, object stores, archives and tables."""
