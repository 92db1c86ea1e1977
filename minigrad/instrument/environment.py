"""The environment switches: instruments for a program that is not changed.

MINIGRAD_PROFILE=1            table to stderr when the program ends, also by an exception
MINIGRAD_PROFILE_EVERY=N      table after every N ops, counting from zero each time
MINIGRAD_PROFILE_OUT=path     into this file instead; {n} is replaced by the table's number
MINIGRAD_PROFILE_FORMAT=...   table, json, events, chrome, speedscope, folded, html; with commas
MINIGRAD_PROFILE_MEMORY=1     also which arrays live: at the peak by category; in logs each of them
MINIGRAD_PROFILE_SECTIONS=1   also the engine's own time in each call: scan, unwrap, link, wrap
MINIGRAD_PROFILE_STACK=n      separate source lines; logs keep n frames of the callers
MINIGRAD_PROFILE_SYNC=1       wait for the GPU after each op: its time is then its own (slow)
MINIGRAD_PROFILE_DEVICE=1     in logs also when each op began and ended on the GPU, by stream
MINIGRAD_PROFILE_SCHEDULE=w,u,a  skip w steps, hear and forget u, record a; w,u,a,n: n times. A
                              step ends with one of the first optimizer's
MINIGRAD_PROFILE_MIN_US=x     event logs drop (and count) shorter events
MINIGRAD_PROFILE_MAX_EVENTS=n event logs drop (and count) further events
MINIGRAD_GRAPH_OUT=path       the graph of each backward; {n} is replaced by its number
MINIGRAD_GRAPH_CHECK=1        with each node's rule checked against finite differences

The same in code: mg.profile(every=, out=, format=, memory=, sections=, stack=, sync=, device=,
schedule=, min_us=, max_events=).

A forked process writes nothing: all files are its parent's. One that multiprocessing starts anew
(spawn, forkserver) writes separate tables and files, run.process-123.jsonl for run.jsonl.

Setting _EVERY, _OUT, _FORMAT, _MEMORY, _SECTIONS, _STACK or _SYNC switches the profile on unless
MINIGRAD_PROFILE=0. A value that makes no sense gives one line on stderr and is ignored; so does a
name that is nearly one of ours.
"""

import os

_started = False


def start() -> None:
    """Read the environment, once, and start what it asks for. A second call does nothing."""
    global _started
    if not _started and any(name.upper().startswith("MINIGRAD_") for name in os.environ):
        from .switches import start_switches  # the tools load only for those who ask for them

        _started = True
        start_switches()
