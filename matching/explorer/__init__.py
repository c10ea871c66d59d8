"""The search service: a kept index, searched over HTTP, and a page to try a picture."""
