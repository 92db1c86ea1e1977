"""What an op, a node and a tensor are: see graph.py first, then primitive.py and tensor.py."""
