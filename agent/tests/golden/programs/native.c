/* A program without Python: functions that the compiler puts into others, and system calls. */

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile uint64_t result;

static inline uint64_t mix(uint64_t value) {
    value ^= value >> 33;
    value *= 0xff51afd7ed558ccdULL;
    return value ^ value >> 29;
}

static inline __attribute__((always_inline)) uint64_t mix_all(uint64_t value, int rounds) {
    for (int round = 0; round < rounds; round++)
        value = mix(value + round);
    return value;
}

__attribute__((noinline)) uint64_t hash_block(uint64_t seed) { return mix_all(seed, 20000) + 1; }

__attribute__((noinline)) int fill(int file) {
    static char block[1 << 16];
    return read(file, block, sizeof block);
}

static void *filler(void *argument) {
    prctl(PR_SET_NAME, "filler");
    int file = open("/dev/urandom", O_RDONLY);
    while (fill(file) > 0)
        ;
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, filler, 0);
    puts("ready");
    fflush(stdout);
    for (;;)
        result = hash_block(result);
}
