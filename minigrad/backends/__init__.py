"""Devices, dtypes, random generators, threads and memory: everything between arrays and
hardware."""
