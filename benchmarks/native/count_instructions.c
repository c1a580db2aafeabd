/* A plugin of qemu-aarch64 that counts the instructions between two calls of getppid(), which the program that is counted makes
 * for this alone.  Each such call prints a line: COUNT, then what was executed until now
 *   in all, outside the program's own file (so without the interpreter, where that is Python), and multiply-adds of vectors.
 *
 *   cc -O2 -shared -fPIC count_instructions.c -o libcount.so
 *   qemu-aarch64 -plugin ./libcount.so -d plugin PROGRAM
 *
 * The declarations are those of QEMU's plugin interface, version 1, which Debian ships no header of. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

typedef void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*called)(qemu_plugin_id_t, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                       uint64_t, uint64_t);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, called);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, enum qemu_plugin_op, void *, uint64_t);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_start_code(void);
uint64_t qemu_plugin_end_code(void);
void qemu_plugin_outs(const char *);

enum { GETPPID = 173 }; /* of 64-bit ARM */

static uint64_t all, outside, multiply_adds;

/* Vector instructions that add products to sums, as the manual encodes them: bits that are fixed, and their values. */
static const struct {
  uint32_t fixed, value;
} kinds[] = {
    {0xBFA0FC00u, 0x0E20CC00u}, /* FMLA of vectors */
    {0xBF80F400u, 0x0F801000u}, /* FMLA by an element */
    {0x9FE0FC00u, 0x0E809400u}, /* SDOT, UDOT */
    {0x9FC0F400u, 0x0F80E000u}, /* SDOT, UDOT by an element */
    {0xDFE0F400u, 0x4E80A400u}, /* SMMLA, UMMLA, USMMLA */
    {0x9F20FC00u, 0x0E208000u}, /* SMLAL, UMLAL */
    {0x9F00F400u, 0x0F002000u}, /* SMLAL, UMLAL by an element */
};

static int is_multiply_add(uint32_t word) {
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
    if ((word & kinds[i].fixed) == kinds[i].value) return 1;
  }
  return 0;
}

static void count_block(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
  (void)id;
  const size_t count = qemu_plugin_tb_n_insns(block);
  const uint64_t start = qemu_plugin_tb_vaddr(block);
  uint64_t adds = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t word;
    memcpy(&word, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(block, i)), sizeof(word));
    adds += (uint64_t)is_multiply_add(word);
  }
  qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &all, count);
  if (start < qemu_plugin_start_code() || start >= qemu_plugin_end_code()) {
    qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &outside, count);
  }
  if (adds > 0) qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &multiply_adds, adds);
}

static void print_counts(qemu_plugin_id_t id, unsigned processor, int64_t number, uint64_t a, uint64_t b, uint64_t c,
                         uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
  (void)id, (void)processor, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
  if (number != GETPPID) return;
  char line[96];
  snprintf(line, sizeof(line), "COUNT %llu %llu %llu\n", (unsigned long long)all, (unsigned long long)outside,
           (unsigned long long)multiply_adds);
  qemu_plugin_outs(line);
}

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int count,
                                                               char **arguments) {
  (void)info, (void)count, (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
  qemu_plugin_register_vcpu_syscall_cb(id, print_counts);
  return 0;
}
