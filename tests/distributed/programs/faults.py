"""A small training in which rank 1 does what the first argument says, in the third step.

The second argument is the phase in which it does so.
"""

import os
import signal
import sys
import time

import numpy as np

import minigrad as mg
from minigrad import distributed

fault, phase = sys.argv[1:3]
folder = sys.argv[3] if len(sys.argv) > 3 else ""


class Broken(mg.nn.Module):
    """Passes its input on, unless it is this rank's turn to fail in the forward."""

    def forward(self, x):
        at("forward")
        return x


def at(where):
    """The place `where` of the program: fail here if that was asked for."""
    if where != phase or distributed.rank() != 1 or step < 2:
        return
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "fork":
        if os.fork() == 0:
            os.close(1)
            os.close(2)
            time.sleep(3)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "raise":
        raise ValueError("a planted error")
    elif fault == "sleep":
        time.sleep(100)
    elif fault == "exit":
        sys.exit(0)
    elif fault == "leave":
        os._exit(0)


step = 2 if phase == "start" else 0
distributed.init(timeout=2)
at("start")
width = 5 if fault == "shapes" and distributed.rank() == 1 else 6
extra = [mg.nn.Linear(3, 3)] if fault == "count" and distributed.rank() == 1 else []
layers = [mg.nn.Linear(4, width), Broken(), mg.nn.Tanh(), mg.nn.Linear(width, 3), *extra]
model = distributed.DataParallel(mg.nn.Sequential(*layers), bucket_mb=0)
if phase == "backward":
    model.module[3].weight.register_hook(lambda g: at("backward"))
optimizer = mg.optim.SGD(model.parameters(), lr=0.1)
x = mg.tensor(np.ones((2, 4), np.float32))
while step < 5:
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    at("optimizer")
    optimizer.step()
    if fault == "calls" and step == 2:
        if distributed.rank() == 1:
            distributed.all_gather(x)
        else:
            distributed.all_reduce(x)
    if folder:
        at("saving")
        if phase == "in the file" and distributed.rank() == 0 and step >= 2:
            os.kill(os.getpid(), signal.SIGKILL)
        distributed.save_checkpoint(
            folder, step, {"model": model.state_dict()}, {"rank": distributed.rank()}
        )
    step += 1
at("end")
print("the end of rank", distributed.rank())
