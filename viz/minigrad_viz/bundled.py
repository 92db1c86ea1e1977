"""Draws DOT with the Graphviz inside pygraphviz. Runs as a separate script, never imported: a
layout that hangs or crashes must end only its own process.

DOT comes on standard input, the drawing leaves on standard output; arguments: format, program.
"""

import sys

import pygraphviz

if __name__ == "__main__":
    wanted, program = sys.argv[1:3]
    graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode("utf-8"))
    drawing = graph.draw(format=wanted, prog=program)
    sys.stdout.buffer.write(drawing or b"")
