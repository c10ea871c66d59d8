"""What a search found, as people and programs see it: the folder's tables and gallery, the review page, the search service."""
