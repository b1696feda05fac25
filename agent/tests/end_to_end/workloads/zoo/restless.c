/* A program that makes ever more of something, or nothing but work. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define VARIABLES 100000

static volatile uint64_t sink;

static void spin(uint64_t turns) {
  for (uint64_t turn = 0; turn < turns; turn++)
    sink = turn;
}

static void *short_life(void *nothing) {
  spin(10000);
  return nothing;
}

/* Threads that end at once. */
static void threads(void) {
  for (;;) {
    pthread_t all[16];
    for (int nth = 0; nth < 16; nth++)
      pthread_create(&all[nth], NULL, short_life, NULL);
    for (int nth = 0; nth < 16; nth++)
      pthread_join(all[nth], NULL);
  }
}

/* Stacks that are never the same again: `path` has a bit for each call. */
static uint64_t __attribute__((noinline)) descend(uint64_t path, int depth) {
  if (depth == 0) {
    spin(2000);
    return path;
  }
  uint64_t next = path >> 1 | path << 63;
  if (path & 1)
    return descend(next, depth - 1) + 1;
  return descend(next, depth - 1) ^ 2;
}

static void stacks(void) {
  for (uint64_t turn = 1;; turn++)
    sink = descend(turn * 0x9e3779b97f4a7c15, 110);
}

/* A map of compiled code that grows while the code runs; the test removes it. */
static void perf_map(void) {
  uint8_t *code = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  /* mov $0x1000, %ecx; dec %ecx; jnz .-2; ret */
  static const uint8_t SPIN[] = {0xb9, 0, 0x10, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
  for (int at = 0; at < 1 << 20; at += 32)
    memcpy(code + at, SPIN, sizeof SPIN);
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
  FILE *map = fopen(path, "w");
  for (uint64_t turn = 0;; turn++) {
    int at = turn % 32768 * 32;
    if (turn < 4000000)
      fprintf(map, "%lx 20 function_%lu_%0128lu\n", (unsigned long)(code + at), turn, turn);
    ((void (*)(void))(code + at))();
  }
}

/* Names with what terminals and parsers take for something else. */
static void names(void) {
  static const char *const NAMES[] = {"\33[31mred\33[0m", "a)\nb (c", "\r\b\b\b\x7f",
                                      "\xff\xfe\x80", ") R 1 1 (", ";_[k];[x]"};
  for (unsigned turn = 0;; turn++) {
    prctl(PR_SET_NAME, NAMES[turn % 6]);
    spin(1000000);
  }
}

/* Processes that fork, execute and end. */
static void forks(char *program) {
  for (;;) {
    pid_t children[8];
    for (int nth = 0; nth < 8; nth++) {
      children[nth] = fork();
      if (children[nth] == 0) {
        if (nth % 2 == 0)
          execl(program, program, "end", NULL);
        _exit(0);
      }
    }
    for (int nth = 0; nth < 8; nth++)
      waitpid(children[nth], NULL, 0);
  }
}

/* The same program again, with many variables. */
static void environment(char *program) {
  char **variables = calloc(VARIABLES + 1, sizeof *variables);
  for (int nth = 0; nth < VARIABLES; nth++)
    if (nth == 0)
      asprintf(&variables[nth], "OTEL_SERVICE_NAME=%s", getenv("OTEL_SERVICE_NAME"));
    else
      asprintf(&variables[nth], "%x=", nth);
  execle(program, program, "work", NULL, variables);
  perror("execle");
  _exit(1);
}

int main(int count, char **arguments) {
  const char *what = count > 1 ? arguments[1] : "";
  if (strcmp(what, "end") == 0)
    return 0;
  if (strcmp(what, "environment") == 0)
    environment(arguments[0]);
  puts("ready");
  fflush(stdout);
  if (strcmp(what, "threads") == 0)
    threads();
  if (strcmp(what, "stacks") == 0)
    stacks();
  if (strcmp(what, "perf-map") == 0)
    perf_map();
  if (strcmp(what, "names") == 0)
    names();
  if (strcmp(what, "forks") == 0)
    forks(arguments[0]);
  for (;;)
    spin(1 << 30);
}
