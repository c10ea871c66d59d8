"""The commands: numbered steps from images to a score, and further tools."""
