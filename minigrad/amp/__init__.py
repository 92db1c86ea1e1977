"""Mixed precision: autocast chooses the precision of each op, GradScaler keeps gradients in range.

scaler = mg.amp.GradScaler()
for x, target in batches:
    optimizer.zero_grad()
    with mg.autocast(mg.float16):
        loss = loss_of(model(x), target)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""

from ..modes.autocast import CastEvent, autocast, is_autocast_enabled
from ..tensor_api.help import missing_names_of as _missing_names_of
from .scaler import GradScaler

__all__ = ["CastEvent", "GradScaler", "autocast", "is_autocast_enabled"]

__getattr__ = _missing_names_of(__name__)
