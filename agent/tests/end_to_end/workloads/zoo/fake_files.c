/* A program that runs code of files in memory whose tables claim to be as large as a number can say,
 * or change while they are read. */

#define _GNU_SOURCE
#include <elf.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define SECTIONS 20
/* The file is sparse: as long as this, and one page of it exists. */
#define FILE_BYTES (1ull << 60)

static const struct {
  const char *name;
  uint32_t kind;
  uint64_t entry_bytes;
} TABLES[] = {
    {".symtab", SHT_SYMTAB, sizeof(Elf64_Sym)},
    {".strtab", SHT_STRTAB, 0},
    {".dynsym", SHT_DYNSYM, sizeof(Elf64_Sym)},
    {".dynstr", SHT_STRTAB, 0},
    {".gnu.hash", SHT_GNU_HASH, 0},
    {".eh_frame", SHT_PROGBITS, 0},
    {".eh_frame_hdr", SHT_PROGBITS, 0},
    {".debug_info", SHT_PROGBITS, 0},
    {".debug_abbrev", SHT_PROGBITS, 0},
    {".debug_line", SHT_PROGBITS, 0},
    {".debug_str", SHT_PROGBITS, 0},
    {".debug_ranges", SHT_PROGBITS, 0},
    {".debug_frame", SHT_PROGBITS, 0},
    {".note.gnu.build-id", SHT_NOTE, 0},
    {".gopclntab", SHT_PROGBITS, 0},
    {".go.buildinfo", SHT_PROGBITS, 0},
    {".rela.plt", SHT_RELA, sizeof(Elf64_Rela)},
    {".rodata", SHT_PROGBITS, 0},
};
#define TABLE_COUNT (sizeof TABLES / sizeof TABLES[0])

/* mov $0x100000, %ecx; dec %ecx; jnz .-2; ret */
static const uint8_t SPIN[] = {0xb9, 0, 0, 0x10, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
#define SPIN_AT 0xf00

struct file {
  Elf64_Ehdr header;
  Elf64_Phdr segments[4];
  Elf64_Shdr sections[SECTIONS];
  char names[512];
};
_Static_assert(sizeof(struct file) < SPIN_AT, "the code is behind it");

/* The first page of a file in which the table `only`, or every one, is as large as the file. */
static void fill(struct file *file, int only) {
  Elf64_Ehdr *header = &file->header;
  memcpy(header->e_ident, ELFMAG, SELFMAG);
  header->e_ident[EI_CLASS] = ELFCLASS64;
  header->e_ident[EI_DATA] = ELFDATA2LSB;
  header->e_ident[EI_VERSION] = EV_CURRENT;
  header->e_type = ET_DYN;
  header->e_machine = EM_X86_64;
  header->e_version = EV_CURRENT;
  header->e_ehsize = sizeof *header;
  header->e_phoff = offsetof(struct file, segments);
  header->e_phentsize = sizeof(Elf64_Phdr);
  header->e_phnum = 4;
  header->e_shoff = offsetof(struct file, sections);
  header->e_shentsize = sizeof(Elf64_Shdr);
  header->e_shnum = TABLE_COUNT + 2;
  header->e_shstrndx = TABLE_COUNT + 1;
  static const uint32_t KINDS[] = {PT_LOAD, PT_NOTE, PT_GNU_EH_FRAME, PT_DYNAMIC};
  for (int nth = 0; nth < 4; nth++)
    file->segments[nth] = (Elf64_Phdr){
        .p_type = KINDS[nth],
        .p_flags = PF_R | PF_X,
        .p_offset = nth == 0 ? 0 : PAGE,
        .p_vaddr = nth == 0 ? 0 : PAGE,
        .p_filesz = FILE_BYTES - PAGE,
        .p_memsz = FILE_BYTES - PAGE,
        .p_align = PAGE,
    };
  size_t end = 1;
  for (size_t nth = 0; nth < TABLE_COUNT; nth++) {
    int is_huge = only < 0 || (size_t)only == nth;
    file->sections[nth + 1] = (Elf64_Shdr){
        .sh_name = end,
        .sh_type = TABLES[nth].kind,
        .sh_flags = SHF_ALLOC,
        .sh_addr = PAGE,
        .sh_offset = PAGE,
        .sh_size = is_huge ? 1ull << 61 : PAGE,
        /* The strings of a table of symbols follow it. */
        .sh_link = nth + 2,
        .sh_addralign = 8,
        .sh_entsize = TABLES[nth].entry_bytes,
    };
    if (is_huge && nth % 2 == 0)
      file->sections[nth + 1].sh_size = FILE_BYTES - PAGE;
    strcpy(file->names + end, TABLES[nth].name);
    end += strlen(TABLES[nth].name) + 1;
  }
  file->sections[TABLE_COUNT + 1] = (Elf64_Shdr){
      .sh_type = SHT_STRTAB,
      .sh_offset = offsetof(struct file, names),
      .sh_size = end,
  };
}

/* A file, mapped so that its code can be run and its first page be changed. */
static struct file *make(int only, int *descriptor) {
  *descriptor = memfd_create("table", 0);
  if (ftruncate(*descriptor, FILE_BYTES) != 0)
    perror("ftruncate");
  struct file *file =
      mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, *descriptor, 0);
  fill(file, only);
  memcpy((char *)file + SPIN_AT, SPIN, sizeof SPIN);
  return file;
}

/* Headers that are other ones all the time. */
static void *change(void *first) {
  struct file *file = first;
  for (uint64_t turn = 0;; turn++) {
    volatile Elf64_Ehdr *header = &file->header;
    header->e_shnum = turn % 3 == 0 ? 0xff00 : TABLE_COUNT + 2;
    header->e_shoff = turn % 5 == 0 ? FILE_BYTES - turn % PAGE : offsetof(struct file, sections);
    header->e_phnum = turn % 7 == 0 ? 0xffff : 4;
    header->e_phoff = turn % 11 == 0 ? turn : offsetof(struct file, segments);
    volatile Elf64_Shdr *section = &file->sections[1 + turn % TABLE_COUNT];
    section->sh_size = turn * 0x9e3779b97f4a7c15;
    section->sh_offset = turn % PAGE;
  }
  return NULL;
}

int main(int count, char **arguments) {
  const char *what = count > 1 ? arguments[1] : "";
  struct file *files[TABLE_COUNT + 1];
  int descriptors[TABLE_COUNT + 1];
  for (size_t nth = 0; nth <= TABLE_COUNT; nth++)
    files[nth] = make((int)nth - 1, &descriptors[nth]);
  if (strcmp(what, "changing-headers") == 0) {
    pthread_t other;
    pthread_create(&other, NULL, change, files[0]);
  } else if (strcmp(what, "mappings") == 0) {
    /* Every second page, so that no two are one: as many as the kernel allows. */
    char *room = mmap(NULL, 3ull * 65536 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int nth = 0; nth < 65536; nth++)
      mmap(room + 3ull * nth * PAGE, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED,
           descriptors[nth % TABLE_COUNT], 0);
  } else if (strcmp(what, "huge-tables") != 0) {
    return 2;
  }
  puts("ready");
  fflush(stdout);
  for (;;)
    for (size_t nth = 0; nth <= TABLE_COUNT; nth++)
      ((void (*)(void))((char *)files[nth] + SPIN_AT))();
}
