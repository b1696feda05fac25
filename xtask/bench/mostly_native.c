// Threads that compute in C for most of the time and call Python in between, each time as a thread
// that Python has not seen before: as an embedding program or a framework with threads of its own.
#include <pthread.h>
#include <stdint.h>
#include <time.h>

typedef void (*Callback)(void);

static Callback callback;
static volatile uint64_t sink;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

__attribute__((noinline)) static uint64_t compute(uint64_t depth, uint64_t rounds) {
    if (depth > 0) {
        uint64_t result = compute(depth - 1, rounds);
        return result + depth;
    }
    uint64_t value = 1;
    for (uint64_t round = 0; round < rounds; round++) value = value * 6364136223846793005u + 1442695040888963407u;
    return value;
}

static void *serve(void *unused) {
    for (;;) {
        double end = now() + 0.050;
        while (now() < end) sink += compute(20, 20000);
        callback();
    }
    return unused;
}

int start(Callback with, int threads) {
    callback = with;
    for (int nth = 0; nth < threads; nth++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, NULL) != 0) return 1;
    }
    return 0;
}
