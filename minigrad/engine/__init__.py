"""The engine: ops, nodes and tensors, and how gradients flow back. Read graph.py first."""
