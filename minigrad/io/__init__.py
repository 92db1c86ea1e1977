"""Saving: arrays and nested states in safetensors or npz files, whole or not at all, no pickle."""

from .files import load, metadata, save

__all__ = ["load", "metadata", "save"]
