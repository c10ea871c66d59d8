"""What every step and tool shares: the run folder, the recipe, manifests, roles of training images, the command line."""
