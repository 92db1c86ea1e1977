"""Forms of attention that never hold all scores: see forms.py."""

from . import forms
