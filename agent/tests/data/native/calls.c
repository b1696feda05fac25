/* Ways of calling, each of which stops where the stack is of interest. */

#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* A debugger takes this for a breakpoint of its own, so that no symbols are needed. */
#define STOP() __asm__ volatile("int3" ::: "memory")

#ifdef __clang__
#define APART __attribute__((noinline, optnone))
#else
#define APART __attribute__((noipa))
#endif

volatile int sink = 3;
void *volatile escaped;

APART int leaf(int value)
{
    STOP();
    return value + sink;
}

APART int chain(int depth)
{
    volatile char frame[40];
    frame[depth & 31] = 1;
    return depth ? chain(depth - 1) + frame[depth & 31] : leaf(depth);
}

/* Frames of unusual sizes and shapes. */

APART int large(int value)
{
    volatile char frame[200 * 1024];
    frame[value] = 1;
    return leaf(value) + frame[value];
}

APART int of_any_size(int size)
{
    volatile char variable[size];
    volatile char *more = alloca(size * 3);
    escaped = (void *)more;
    variable[size - 1] = more[0] = 2;
    return chain(2) + variable[size - 1] + more[0];
}

typedef int Wide __attribute__((vector_size(32)));

APART int aligned(int value)
{
    _Alignas(64) volatile char frame[128];
    volatile Wide wide = {value, 1, 2, 3};
    frame[value] = 1;
    return leaf(value) + frame[value] + wide[value & 3];
}

APART int aligned_of_any_size(int size, int a, int b, int c, int d, int e, int on_the_stack)
{
    _Alignas(128) volatile char frame[256];
    volatile char *more = alloca(size);
    escaped = (void *)more;
    frame[size] = more[0] = 1;
    return aligned(size & 15) + frame[size] + a + b + c + d + e + on_the_stack;
}

__attribute__((noinline, force_align_arg_pointer)) int realigned(int value)
{
    return aligned_of_any_size(value, 1, 2, 3, 4, 5, 6) + 1;
}

APART int many_registers(int a, int b, int c, int d, int e, int f, int g, int h)
{
    int sum = 0;
    for (int i = 0; i < 2; i++)
        sum += leaf(a * i) + b * c + d * e + f * g + h + chain(1);
    return sum + a + b + c + d + e + f + g + h;
}

APART int grows(int a, ...)
{
    __builtin_va_list list;
    __builtin_va_start(list, a);
    int sum = leaf(a);
    for (int i = 0; i < 9; i++)
        sum += __builtin_va_arg(list, int);
    __builtin_va_end(list);
    return sum;
}

/* Calls in places of their own. */

APART int sibling(int value)
{
    return chain(value);
}

APART __attribute__((cold)) int unlikely(int value)
{
    return leaf(value) * 2;
}

APART int with_cold_part(int value)
{
    if (__builtin_expect(value == sink, 1))
        return leaf(value);
    int sum = 0;
    for (int i = 0; i < value; i++)
        sum += unlikely(i);
    return sum;
}

jmp_buf back;

APART _Noreturn void never_returns(void)
{
    STOP();
    longjmp(back, 1);
}

/* The call is its last instruction, and the next function begins behind it. */
APART void ends_with_a_call(int value)
{
    sink = value;
    never_returns();
}

APART int after_the_end(int value)
{
    return value;
}

APART void jumps(void)
{
    if (!setjmp(back))
        ends_with_a_call(3);
    STOP();
}

/* Calls from elsewhere. */

int compare(const void *left, const void *right)
{
    STOP();
    return *(const int *)left - *(const int *)right;
}

APART void sorts(void)
{
    int values[] = {3, 1, 2, 5};
    qsort(values, 4, sizeof *values, compare);
}

ssize_t written(void *cookie, const char *text, size_t bytes)
{
    STOP();
    return bytes;
}

APART void prints(void)
{
    cookie_io_functions_t functions = {.write = written};
    FILE *stream = fopencookie(NULL, "w", functions);
    fprintf(stream, "%d %s %f\n", sink, "text", 1.5);
    fflush(stream);
    fclose(stream);
}

APART void nests(int value)
{
#ifdef __clang__
    /* Has no functions in functions. */
    STOP();
#else
    int inside(int more)
    {
        STOP();
        return more + value;
    }
    int (*volatile function)(int) = inside;
    function(1);
#endif
}

ucontext_t outside, coroutine;

void in_coroutine(void)
{
    chain(2);
    swapcontext(&coroutine, &outside);
}

APART void switches(void)
{
    static char stack[64 * 1024];
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = sizeof stack;
    coroutine.uc_link = &outside;
    makecontext(&coroutine, in_coroutine, 0);
    swapcontext(&outside, &coroutine);
    STOP();
}

/* Signals. */

sigjmp_buf recovered;
volatile sig_atomic_t handled;

void on_user_signal(int number)
{
    handled++;
    chain(1);
    if (handled == 1)
        raise(SIGUSR2);
}

void on_fault(int number, siginfo_t *info, void *context)
{
    leaf(number);
    siglongjmp(recovered, 1);
}

void on_illegal(int number, siginfo_t *info, void *context)
{
    leaf(number);
    /* Behind ud2. */
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

/* Has no frame, and so no saved frame pointer either. */
APART int interrupted_leaf(int value)
{
    __asm__ volatile("ud2");
    return value;
}

APART int touches(volatile int *address)
{
    return *address;
}

APART void catches(int flags)
{
    struct sigaction action = {.sa_handler = on_user_signal, .sa_flags = flags};
    handled = 0;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    action.sa_sigaction = on_fault;
    action.sa_flags |= SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    action.sa_sigaction = on_illegal;
    sigaction(SIGILL, &action, NULL);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    interrupted_leaf(1);
    if (!sigsetjmp(recovered, 1))
        touches((volatile int *)8L);
}

APART void catches_elsewhere(void)
{
    stack_t stack = {.ss_size = 64 * 1024};
    stack.ss_sp = malloc(stack.ss_size);
    sigaltstack(&stack, NULL);
    catches(SA_ONSTACK);
}

/* Threads. */

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
pthread_barrier_t barrier;
int waiting;

APART void waits(int depth)
{
    if (depth) {
        waits(depth - 1);
        sink = 3;
        return;
    }
    pthread_mutex_lock(&mutex);
    waiting++;
    pthread_cond_broadcast(&changed);
    while (waiting < 100)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

void *thread(void *depth)
{
    waits((long)depth);
    leaf(1);
    pthread_barrier_wait(&barrier);
    return NULL;
}

APART void threads(void)
{
    enum { COUNT = 3 };
    pthread_t made[COUNT];
    pthread_barrier_init(&barrier, NULL, COUNT + 1);
    for (long nth = 0; nth < COUNT; nth++)
        pthread_create(&made[nth], NULL, thread, (void *)nth);
    pthread_mutex_lock(&mutex);
    while (waiting < COUNT)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    leaf(0);
    pthread_mutex_lock(&mutex);
    waiting = 100;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_barrier_wait(&barrier);
    for (int nth = 0; nth < COUNT; nth++)
        pthread_join(made[nth], NULL);
}

/* Code of the dynamic linker and of the kernel: what follows a stop is run step by step. */

APART void links(void)
{
    char text[8];
    STOP();
    sink += strtol("1", NULL, 10) - 1;
    STOP();
    sink += strtol("1", NULL, 10) - 1;
    STOP();
    escaped = strncpy(text, "text", sizeof text);
}

APART void reads_the_time(void)
{
    struct timespec now;
    struct timeval today;
    clock_gettime(CLOCK_MONOTONIC, &now);
    STOP();
    clock_gettime(CLOCK_MONOTONIC, &now);
    STOP();
    gettimeofday(&today, NULL);
    STOP();
    escaped = (void *)time(NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
}

/* Before main and after it. */

__attribute__((constructor)) void before(void)
{
    leaf(1);
}

__attribute__((destructor)) void after(void)
{
    leaf(2);
}

void at_exit(void)
{
    leaf(3);
}

int main(void)
{
    atexit(at_exit);
    links();
    reads_the_time();
    chain(30);
    large(7);
    of_any_size(100);
    of_any_size(100000);
    aligned(1);
    aligned_of_any_size(200, 1, 2, 3, 4, 5, 6);
    realigned(5);
    many_registers(1, 2, 3, 4, 5, 6, 7, 8);
    grows(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
    sibling(3);
    with_cold_part(2);
    jumps();
    after_the_end(1);
    sorts();
    prints();
    nests(4);
    switches();
    catches(0);
    catches_elsewhere();
    threads();
    exit(0);
}
