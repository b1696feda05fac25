/* A library with more call-frame information than is read before it is needed, that computes and waits. */

#include <stdint.h>
#include <unistd.h>

__asm__(".text\n"
        ".rept 200000\n"
        ".cfi_startproc\n"
        "nop\n"
        ".cfi_def_cfa_offset 32\n"
        "nop\n"
        ".cfi_def_cfa_offset 16\n"
        "ret\n"
        ".cfi_endproc\n"
        ".endr\n");

__attribute__((noinline)) uint64_t leaf(uint64_t rounds) {
    volatile uint64_t sum = 0;
    for (uint64_t round = 0; round < rounds; round++)
        sum += round;
    return sum;
}

uint64_t compute(uint64_t rounds) {
    return leaf(rounds) + 1;
}

int rest(void) {
    return pause() + 1;
}
