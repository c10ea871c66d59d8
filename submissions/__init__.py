"""From stored vectors to a scored submission, and to matches in any folder. Imports neither torch nor timm."""
