"""Where arrays live and who computes: devices, dtypes, generators, threads, memory."""
