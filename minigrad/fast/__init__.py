"""Accelerations: calls written out, elementwise ops in blocks, contributions put off."""
