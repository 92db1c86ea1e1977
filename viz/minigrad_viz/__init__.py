"""minigrad-viz: draws the graphs that minigrad dumps. It reads files and never imports the engine.

The rooms, in reading order: reader (file -> Graph), collapse (which nodes share a box), picture
(Graph -> boxes and links), layering + ordering + layout (where each box stands), then one writer a
format: svg, dot, mermaid, page (HTML); raster hands DOT to Graphviz; cli ties them together.
"""

__version__ = "0.1.0"
