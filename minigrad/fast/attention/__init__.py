"""Forms of attention that never hold all scores: see the list in forms.py."""

from . import forms
