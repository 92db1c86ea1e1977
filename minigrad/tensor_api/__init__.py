"""The interface of tensors: methods, creation, indexing and writes, NumPy's protocol, display."""
