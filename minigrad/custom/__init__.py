"""Ops of users: mg.Function, extensions, and what their rules must not hide."""
