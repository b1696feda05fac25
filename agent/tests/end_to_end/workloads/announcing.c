// Announces allocations as the samplers of allocators do: the USDT probe otel_memory:alloc(user, size, weighted_bytes),
// with a semaphore, and with its arguments where compilers put them.

#include <stdint.h>
#include <stdlib.h>

// Those who look at the probe.
__attribute__((section(".probes"), used)) volatile unsigned short semaphore;

#define ANNOUNCE(user, size, weight, where)                                          \
    __asm__ volatile("990: nop\n"                                                   \
                     ".pushsection .note.stapsdt,\"\",\"note\"\n"                   \
                     ".balign 4\n"                                                  \
                     ".4byte 992f-991f, 994f-993f, 3\n"                             \
                     "991: .asciz \"stapsdt\"\n"                                    \
                     "992: .balign 4\n"                                             \
                     "993: .8byte 990b, base, semaphore\n"                          \
                     ".asciz \"otel_memory\"\n"                                     \
                     ".asciz \"alloc\"\n"                                           \
                     ".asciz \"8@%0 8@%1 8@%2\"\n"                                  \
                     "994: .balign 4\n"                                             \
                     ".popsection\n"                                                \
                     ".pushsection announced,\"a\",\"progbits\"\n"                     \
                     ".byte 0\n"                                                    \
                     ".popsection\n" ::"r"(user),                                   \
                     where(size), where(weight))

// Where the file would be loaded if it were not moved.
__asm__(".pushsection .stapsdt.base,\"a\",\"progbits\"\nbase: .space 1\n.popsection\n");

unsigned looked_at(void) { return semaphore; }

// How many probes there are, each of which is looked at.
extern const char __start_announced, __stop_announced;
unsigned probes(void) { return &__stop_announced - &__start_announced; }

void announce_in_registers(uint64_t size, uint64_t weight) {
    ANNOUNCE((uint64_t)64, size, weight, "r");
}

void announce_in_memory(uint64_t size, uint64_t weight) {
    volatile uint64_t kept[2] = {size, weight};
    ANNOUNCE((uint64_t)64, kept[0], kept[1], "m");
}

void announce_constants(uint64_t size, uint64_t weight) {
    (void)size, (void)weight;
    ANNOUNCE((uint64_t)64, (uint64_t)4096, (uint64_t)524288, "n");
}

// As a sampler before the C library's functions does, which adds a header.
void announce_wrapping(uint64_t size, uint64_t weight) {
    void *at = malloc(size + 16);
    ANNOUNCE((uint64_t)at, size, weight, "r");
    free(at);
}

#ifdef ALLOCATOR
extern void *__libc_malloc(size_t);

// Instead of the C library's: announces what is large.
void *malloc(size_t size) {
    void *at = __libc_malloc(size);
    if (semaphore && size >= 500000) ANNOUNCE((uint64_t)at, (uint64_t)size, (uint64_t)size, "r");
    return at;
}
#endif

#ifdef JEMALLOC
extern int mallctl(const char *, void *, size_t *, void *, size_t);

// jemalloc calls this for each allocation, before it returns.
static void allocated(void *extra, int kind, void *at, uintptr_t raw, uintptr_t arguments[3]) {
    (void)extra, (void)kind, (void)raw;
    if (arguments[0] >= 500000)
        ANNOUNCE((uint64_t)at, (uint64_t)arguments[0], (uint64_t)arguments[0], "r");
}

static struct {
    void (*allocated)(void *, int, void *, uintptr_t, uintptr_t[3]);
    void *freed, *expanded, *extra;
} hooks = {allocated, 0, 0, 0};

// Whether jemalloc has taken them.
int announce_by_hooks(void) {
    void *handle;
    size_t bytes = sizeof handle;
    return mallctl("experimental.hooks.install", &handle, &bytes, &hooks, sizeof hooks) == 0;
}
#endif

void announce_often(uint64_t size, uint64_t weight) {
    for (uint64_t nth = 0; nth < 300000; nth++) ANNOUNCE((uint64_t)64, size, weight, "r");
}
