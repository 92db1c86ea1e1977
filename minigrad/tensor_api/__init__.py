"""What a tensor offers: methods, creation, indexing and writes, NumPy's protocol, display."""
