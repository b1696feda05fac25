/* A program that looks like CPython 3.12 and has structures that no interpreter makes.
 *
 * The offsets are those of CPython 3.12. Its main thread spins, and another one changes what the
 * main thread's state leads to. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FRAMES 16384
#define FRAME_BYTES 96
#define NEWEST_FRAMES 512
#define TEXT_BYTES (32 << 10)
#define LINE_TABLE_BYTES (512 << 10)

const unsigned long Py_Version = 0x030c00f0;
/* What the agent takes for the state of the interpreter. */
char _PyRuntime[459944] = {1};

static char interpreter[1024], thread[256], other_thread[256], loop[64];
static char text[40 + TEXT_BYTES], line_table[32 + LINE_TABLE_BYTES];
static char code[NEWEST_FRAMES][256] __attribute__((aligned(16)));
/* A chunk of the data stack: its head, then frames. */
static char chunk[4096 + FRAMES * FRAME_BYTES] __attribute__((aligned(4096)));

static void set(char *structure, int offset, uint64_t value) {
  memcpy(structure + offset, &value, sizeof value);
}

static void set_pointer(char *structure, int offset, const void *value) {
  set(structure, offset, (uint64_t)value);
}

static char *frame(int nth) { return chunk + 4096 + nth * FRAME_BYTES; }

static void set_frame(char *at, const void *previous, int nth_code) {
  set_pointer(at, 0, code[nth_code]);
  set_pointer(at, 8, previous);
  set_pointer(at, 56, code[nth_code] + 192);
}

/* A thread state of the main thread, and the chain of its frames from `newest` on. */
static void make_state(void *newest) {
  memset(text + 40, 'n', TEXT_BYTES);
  set(text, 16, TEXT_BYTES);
  set(text, 24, 1);
  /* Compact, ASCII, one byte per character. */
  set(text, 32, 1 << 2 | 1 << 5 | 1 << 6);
  memset(line_table + 32, 0x80, LINE_TABLE_BYTES);
  set(line_table, 16, LINE_TABLE_BYTES);
  for (int nth = 0; nth < NEWEST_FRAMES; nth++) {
    set_pointer(code[nth], 112, text);
    set_pointer(code[nth], 128, text);
    set_pointer(code[nth], 136, line_table);
    set(code[nth], 68, nth);
  }
  set_pointer(loop, 0, newest);
  set_pointer(thread, 16, interpreter);
  set(thread, 136, (uint64_t)pthread_self());
  set_pointer(thread, 56, loop);
  set_pointer(thread, 232, chunk);
  set_pointer(thread, 240, chunk + sizeof chunk);
  set(chunk, 8, sizeof chunk);
  set_pointer(interpreter, 72, thread);
  set_pointer(_PyRuntime, 40, interpreter);
}

/* As many code objects as a stack can have, each another one all the time. */
static void *change_code(void *nothing) {
  for (uint32_t line = 1;; line += NEWEST_FRAMES)
    for (int nth = 0; nth < NEWEST_FRAMES; nth++)
      *(volatile uint32_t *)(code[nth] + 68) = (line + nth) & 0x7fffffff;
  return nothing;
}

static void endless_code(void) {
  for (int nth = 0; nth < NEWEST_FRAMES; nth++)
    set_frame(frame(nth), nth == 0 ? NULL : frame(nth - 1), nth);
  make_state(frame(NEWEST_FRAMES - 1));
  pthread_t other;
  pthread_create(&other, NULL, change_code, NULL);
}

/* Frames alternately at both ends of the data stack. */
static void distant_frames(void) {
  for (int nth = 0; nth < FRAMES / 2; nth++) {
    set_frame(frame(nth), nth == 0 ? NULL : frame(FRAMES - nth), 0);
    set_frame(frame(FRAMES - 1 - nth), frame(nth), 1);
  }
  make_state(frame(FRAMES / 2));
}

/* A chain of frames that leads back into itself. */
static void endless_frames(void) {
  for (int nth = 0; nth < FRAMES; nth++)
    set_frame(frame(nth), frame(nth == 0 ? FRAMES - 2 : nth - 1), nth % NEWEST_FRAMES);
  make_state(frame(FRAMES - 1));
}

/* Lists of states of other threads that lead back into themselves. */
static void endless_states(void) {
  make_state(NULL);
  memcpy(other_thread, thread, sizeof thread);
  set(other_thread, 136, 1);
  set_pointer(other_thread, 8, other_thread);
  set_pointer(interpreter, 72, other_thread);
  set_pointer(interpreter, 0, interpreter);
}

/* All that the state leads to is on pages that nobody fills in. */
static void absent_pages(void) {
  int watcher = syscall(SYS_userfaultfd, O_CLOEXEC);
  struct uffdio_api api = {.api = UFFD_API};
  ioctl(watcher, UFFDIO_API, &api);
  size_t bytes = 64 << 20;
  char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct uffdio_register range = {.range = {(uint64_t)pages, bytes},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (ioctl(watcher, UFFDIO_REGISTER, &range) != 0) {
    perror("userfaultfd");
    _exit(1);
  }
  for (int nth = 0; nth < NEWEST_FRAMES; nth++) {
    set_frame(frame(nth), nth == 0 ? pages : frame(nth - 1), nth);
    set_pointer(frame(nth), 0, pages + nth * 8192);
  }
  make_state(frame(NEWEST_FRAMES - 1));
}

int main(int count, char **arguments) {
  const char *what = count > 1 ? arguments[1] : "";
  if (strcmp(what, "endless-code") == 0)
    endless_code();
  else if (strcmp(what, "distant-frames") == 0)
    distant_frames();
  else if (strcmp(what, "endless-frames") == 0)
    endless_frames();
  else if (strcmp(what, "endless-states") == 0)
    endless_states();
  else if (strcmp(what, "absent-pages") == 0)
    absent_pages();
  else
    return 2;
  puts("ready");
  fflush(stdout);
  for (;;)
    ;
}
