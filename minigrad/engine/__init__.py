"""What an op, a node and a tensor are, and how gradients flow back: graph.py first."""
