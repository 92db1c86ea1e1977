"""Forms of pooling that are faster than one window position after the other: see forms.py."""

from . import forms
