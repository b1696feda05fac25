/* Uses some CPU time, then loads the library of an interpreter and lets it run a program.
   Arguments: the library, the interpreter's home, the text of the program. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    while (clock() < CLOCKS_PER_SEC / 5)
        ;
    setenv("PYTHONHOME", arguments[2], 1);
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    void (*initialize)(void) = (void (*)(void))dlsym(library, "Py_Initialize");
    int (*run)(const char *, void *) =
        (int (*)(const char *, void *))dlsym(library, "PyRun_SimpleStringFlags");
    if (!initialize || !run)
        return 2;
    initialize();
    return run(arguments[3], NULL);
}
