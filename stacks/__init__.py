"""The stacks of one stage, and the settings they are built from."""
