# Uses its CPU time below functions of the interpreter's own: those that import a module.

import short
