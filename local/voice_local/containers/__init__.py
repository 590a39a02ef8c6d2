"""Runs what an endpoint's model asks for as plain processes, and the two stand-in servers that take a GPU's place."""
