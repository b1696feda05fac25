// Evicts the caches of every processor: on each a thread walks through memory for a part of the time.
//
// Arguments: SECONDS
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, ALL = 48 << 20, STEP = 12 << 20, PAUSE_NS = 4000000 };

static void *fill(void *processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((long)processor, &set);
    sched_setaffinity(0, sizeof set, &set);
    volatile char *memory = calloc(ALL, 1);
    struct timespec pause = {0, PAUSE_NS};
    for (size_t start = 0;; start = (start + STEP) % ALL) {
        for (size_t at = start; at < start + STEP; at += LINE) memory[at]++;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(int count, char **arguments) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    for (long processor = 0; processor < processors; processor++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fill, (void *)processor) != 0) return 1;
    }
    sleep(count > 1 ? atoi(arguments[1]) : 600);
    return 0;
}
