"""Normalisation. One primitive, `standardize`, stands behind all of them.

batch_norm     over batch and space, one mean for each channel
layer_norm     over the last axes, one mean for each of the others
group_norm     over space and the channels of one group, one mean for each example
instance_norm  over space, one mean for each example and channel
rms_norm       as layer_norm without the mean
"""

from .calls import batch_norm, group_norm, instance_norm, layer_norm, rms_norm

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]
