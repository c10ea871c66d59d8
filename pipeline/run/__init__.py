"""What all steps and tools share: the run folder, the recipe, manifests, roles of the training images, the command line."""
