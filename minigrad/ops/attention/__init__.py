"""Attention, plain and in blocks, and rotary position embedding."""

from . import heads, packed
from .calls import scaled_dot_product_attention
from .rotary import rotary, rotary_angles

__all__ = ["rotary", "rotary_angles", "scaled_dot_product_attention"]
