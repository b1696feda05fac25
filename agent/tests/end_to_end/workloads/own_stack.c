/* Threads that wait for conditions on their own stacks, for twenty milliseconds each, at another address each time. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define WAIT_NS 20000000

__attribute__((noinline)) int waits(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += WAIT_NS;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&mutex);
    int result = pthread_cond_timedwait(&condition, &mutex, &end);
    pthread_mutex_unlock(&mutex);
    return result;
}

__attribute__((noinline)) int deeper(uint64_t round) {
    volatile char room[64 * (1 + round % 100)];
    room[0] = 1;
    return waits() + room[0];
}

static void *waits_again_and_again(void *argument) {
    for (uint64_t round = 0;; round++)
        deeper(round);
    return argument;
}

int main(void) {
    for (int number = 0; number < THREADS; number++) {
        pthread_t thread;
        pthread_create(&thread, NULL, waits_again_and_again, NULL);
    }
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
