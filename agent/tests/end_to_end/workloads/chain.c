/* Frames without frame pointers, each of another size, down to one that works. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

__attribute__((noinline)) uint64_t leaf(uint64_t rounds) {
    volatile uint64_t sum = 0;
    for (uint64_t round = 0; round < rounds; round++)
        sum += round;
    return sum;
}

__attribute__((noinline)) uint64_t large(uint64_t rounds) {
    volatile char room[20000];
    memset((void *)room, 1, sizeof room);
    return leaf(rounds) + (uint64_t)room[rounds % sizeof room];
}

__attribute__((noinline)) uint64_t variable(uint64_t rounds) {
    volatile char room[16 + rounds % 1000];
    room[3] = 1;
    return large(rounds) + (uint64_t)room[3];
}

__attribute__((noinline)) uint64_t outer(uint64_t rounds) {
    return variable(rounds) + 1;
}

int main(void) {
    puts("ready");
    fflush(stdout);
    for (uint64_t round = 0;; round++)
        outer(1000000 + round % 3);
}
