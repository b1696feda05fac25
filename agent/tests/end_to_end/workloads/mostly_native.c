/* Threads that are not Python's: each works 50 ms in C and then some in Python, again and again.
   They enter Python as ctypes' callbacks do, with a new thread state each time.

   Their CPU time by their own clocks is in a file: in Python, and in all, in nanoseconds. */

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { NATIVE_NS = 50000000 };

typedef void (*callback)(void);

static callback work_in_python;
static uint64_t *cpu_ns;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t add(uint64_t *sum, uint64_t since) {
    uint64_t end = now();
    __atomic_fetch_add(sum, end - since, __ATOMIC_RELAXED);
    return end;
}

__attribute__((noinline)) static uint64_t work_in_c(uint64_t begin) {
    volatile uint64_t sum = 0;
    while (now() - begin < NATIVE_NS) {
        for (int nth = 0; nth < 10000; nth++) sum += nth;
    }
    return add(&cpu_ns[1], begin);
}

static void *run(void *unused) {
    uint64_t begin = now();
    for (;;) {
        begin = work_in_c(begin);
        work_in_python();
        uint64_t end = add(&cpu_ns[0], begin);
        __atomic_fetch_add(&cpu_ns[1], end - begin, __ATOMIC_RELAXED);
        begin = end;
    }
    return unused;
}

int start(const char *path, int threads, callback python) {
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 16) != 0) return 1;
    cpu_ns = mmap(0, 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    work_in_python = python;
    for (int nth = 0; nth < threads; nth++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, run, 0) != 0) return 1;
    }
    return 0;
}
