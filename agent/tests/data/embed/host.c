/* A program that loads libraries while it runs: those that LIBRARIES names, the engine last. It
   writes an empty line and waits for a line before it starts the engine. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    void *library = NULL;
    char byte = 0;
    for (char *name = strtok(getenv("LIBRARIES"), ":"); name; name = strtok(NULL, ":")) {
        library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
    }
    if (write(1, "\n", 1) != 1)
        return 2;
    while (byte != '\n')
        if (read(0, &byte, 1) != 1)
            return 2;
    int (*engine)(int, char **) = (int (*)(int, char **))dlsym(library, "engine");
    return engine ? engine(argc, argv) : 2;
}
