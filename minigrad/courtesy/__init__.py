"""Help: errors that explain a call, names of other libraries, checks of options."""
