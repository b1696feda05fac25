/* Uses some milliseconds of CPU time in a function of its own, and ends. */

#include <stdlib.h>
#include <time.h>

static volatile unsigned long counted;

static __attribute__((noinline)) void spin(long nanoseconds)
{
    struct timespec now;
    do {
        for (int turn = 0; turn < 10000; turn++)
            counted++;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec == 0 && now.tv_nsec < nanoseconds);
}

int main(int count, char **arguments)
{
    spin(count > 1 ? atol(arguments[1]) * 1000000 : 1000000);
    return 0;
}
