/* Thirty frames without frame pointers, and work at their end. */

#include <stdint.h>

__attribute__((noinline)) uint64_t spin(uint64_t rounds) {
    volatile uint64_t sum = 0;
    for (uint64_t round = 0; round < rounds; round++)
        sum += round;
    return sum;
}

__attribute__((noinline)) uint64_t chain(uint64_t frames, uint64_t rounds) {
    volatile uint64_t kept = frames;
    if (frames <= 1)
        return spin(rounds) + kept;
    return chain(frames - 1, rounds) + kept;
}
