/* Runs a program in an embedded interpreter; takes the arguments that `python` does. */

#include <stdio.h>

void Py_Initialize(void);
int PyRun_SimpleString(const char *program);
int Py_FinalizeEx(void);

/* argv: its name, -s, -c, the program, and the program's only argument. */
int engine(int argc, char **argv)
{
    char arguments[256];
    if (argc != 5)
        return 2;
    Py_Initialize();
    snprintf(arguments, sizeof arguments, "import sys; sys.argv = ['-c', '%s']", argv[4]);
    if (PyRun_SimpleString(arguments) != 0 || PyRun_SimpleString(argv[3]) != 0)
        return 1;
    return Py_FinalizeEx() < 0;
}
