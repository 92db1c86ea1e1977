"""Forms of pooling that are quicker than one window position after the other: see forms.py."""

from . import forms
