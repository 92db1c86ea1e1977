"""Samples of linear algebra, a module for each kind of op."""
