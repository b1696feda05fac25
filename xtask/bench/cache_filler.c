// Evicts the caches of every processor: on each a thread walks through memory for a part of the time.
//
// Arguments: SECONDS [MEGABYTES OF EACH PROCESSOR]
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

// At most so much between two pauses.
enum { LINE = 64, STEP = 12 << 20, PAUSE_NS = 4000000 };

static size_t all;

static void *fill(void *processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((long)processor, &set);
    sched_setaffinity(0, sizeof set, &set);
    volatile char *memory = calloc(all, 1);
    struct timespec pause = {0, PAUSE_NS};
    for (size_t start = 0;; start = start + STEP < all ? start + STEP : 0) {
        for (size_t at = start; at < start + STEP && at < all; at += LINE) memory[at]++;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(int count, char **arguments) {
    all = (size_t)(count > 2 ? atoi(arguments[2]) : 48) << 20;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    for (long processor = 0; processor < processors; processor++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fill, (void *)processor) != 0) return 1;
    }
    sleep(count > 1 ? atoi(arguments[1]) : 600);
    return 0;
}
