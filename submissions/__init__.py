"""From stored vectors to a scored submission. Imports neither torch nor timm."""
