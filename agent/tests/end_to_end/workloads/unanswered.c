/*
 * A process that looks like Python and whose interpreter's memory never answers: the page of
 * `_PyRuntime` of a library that is mapped and not initialised is replaced by one whose faults nobody
 * handles.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **arguments) {
  if (count != 2) return 1;
  void *library = dlopen(arguments[1], RTLD_NOW);
  if (!library) return 2;
  uintptr_t runtime = (uintptr_t)dlsym(library, "_PyRuntime");
  if (!runtime) return 3;
  enum { BYTES = 16 << 12 };
  void *start = (void *)(runtime & ~(uintptr_t)4095);
  void *page = mmap(start, BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (page != start) return 4;
  int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  struct uffdio_api api = {.api = UFFD_API};
  if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) return 5;
  struct uffdio_register area = {
      .range = {.start = (uintptr_t)start, .len = BYTES},
      .mode = UFFDIO_REGISTER_MODE_MISSING,
  };
  if (ioctl(faults, UFFDIO_REGISTER, &area)) return 6;
  puts("ready");
  fflush(stdout);
  for (volatile unsigned long i = 0;; i++) {
  }
}
