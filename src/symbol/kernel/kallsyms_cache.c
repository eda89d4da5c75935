/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of the kernel's core text on disk, from the first reading of /proc/kallsyms after a boot to the next boot.
 *
 *   DIRECTORY/kernel.names
 *     struct header      below; numbers are of the machine's own byte order: the file never leaves its machine
 *     block_count        struct kallsyms_block (kallsyms.c)
 *     data_len           bytes of coded entries
 *
 * It is that of this boot if the boot's id is the same and /proc/kallsyms begins with the same bytes. These are read each time,
 * for they show also whether the caller may see addresses: who may not gets nothing out of the cache either.
 *
 * Of core text, from _stext to _etext, all stays as it is. Modules, BPF programs and trampolines come and go, and another one
 * may lie where one was: they are not in the file, and who meets an address of theirs reads /proc/kallsyms.
 *
 * The file is in a directory of the user's own, or is not read. The checksum finds damage; and since lookups are bounded, what
 * has the right checksum and makes no sense costs names and nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/own_dir.h"
#include "symbol/kernel/kallsyms_int.h"

#define CACHE_NAME	"kernel.names"
#define CACHE_MAGIC	"wickkern"
#define CACHE_VERSION	1u
#define BOOT_ID_PATH	"/proc/sys/kernel/random/boot_id"
#define BEGINNING_BYTES 4096

struct header {
	char magic[8];
	uint32_t version, entry_bytes;
	uint64_t builder;  /* hash of the version of Wick */
	uint64_t checksum; /* of the file with 0 in this place */
	char boot_id[64];
	uint64_t beginning; /* hash of the first bytes of /proc/kallsyms */
	uint64_t core_start, core_end, symbol_count, entry_count, block_count, data_len;
};
_Static_assert(sizeof(struct header) == 152, "a part of the format");

/* Whether one of the addresses is not 0, as all of them are to who may not see them. */
static bool shows_addresses(const char *text)
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		line += strspn(line, "0");
		if (*line && *line != ' ' && *line != '\n')
			return true;
	}
	return false;
}

/* The header of this boot, without what is in the file; false if that cannot be told. */
static bool describe_boot(const char *symbols_path, const char *boot_id_path, struct header *ret)
{
	char text[BEGINNING_BYTES];
	*ret = (struct header){.version = CACHE_VERSION,
			       .entry_bytes = sizeof(struct kallsyms_block),
			       .builder = hash64(WICK_VERSION, strlen(WICK_VERSION))};
	memcpy(ret->magic, CACHE_MAGIC, sizeof(ret->magic));
	ssize_t len = io_read_text(symbols_path, text, sizeof(text));
	if (len <= 0 || !shows_addresses(text) || io_read_text(boot_id_path, ret->boot_id, sizeof(ret->boot_id)) <= 0)
		return false;
	ret->beginning = hash64(text, (size_t)len);
	return true;
}

static uint64_t checksum_of(const struct header *header, const struct kallsyms_run *run)
{
	struct header clean = *header;
	clean.checksum = 0;
	uint64_t hash = hash64(&clean, sizeof(clean));
	hash = hash64_seed(run->blocks, run->block_count * sizeof(*run->blocks), hash);
	return hash64_seed(run->data.data, run->data.len, hash);
}

/* ---- loading ---- */

static bool is_of_boot(const struct header *header, const struct header *boot, uint64_t size)
{
	struct header expected = *boot;
	expected.checksum = header->checksum;
	memcpy(&expected.core_start, &header->core_start, sizeof(*header) - offsetof(struct header, core_start));
	return memcmp(header, &expected, sizeof(expected)) == 0 && header->core_start < header->core_end &&
	       header->entry_count > 0 && header->entry_count <= KALLSYMS_SYMBOLS_MAX &&
	       header->block_count == (header->entry_count + KALLSYMS_BLOCK_SYMBOLS - 1) / KALLSYMS_BLOCK_SYMBOLS &&
	       header->data_len > 0 && header->data_len <= KALLSYMS_DATA_BYTES_MAX &&
	       size == sizeof(*header) + header->block_count * sizeof(struct kallsyms_block) + header->data_len;
}

static int read_run(int fd, const struct header *header, struct kallsyms_run *run)
{
	size_t blocks_len = header->block_count * sizeof(*run->blocks);
	run->blocks = mem_alloc_array(header->block_count, sizeof(*run->blocks));
	int r = run->blocks ? buffer_reserve(&run->data, header->data_len) : -ENOMEM;
	if (r < 0)
		return r;
	if (io_pread(fd, run->blocks, blocks_len, sizeof(*header), CACHE_NAME, NULL) != (ssize_t)blocks_len ||
	    io_pread(fd, run->data.data, header->data_len, sizeof(*header) + blocks_len, CACHE_NAME, NULL) !=
		    (ssize_t)header->data_len)
		return -EBADMSG;
	run->block_count = run->block_capacity = header->block_count;
	run->entry_count = header->entry_count;
	run->data.len = header->data_len;
	return checksum_of(header, run) == header->checksum ? 0 : -EBADMSG;
}

int kallsyms_cache_load(int directory, const char *symbols_path, const char *boot_id_path, struct kallsyms **ret)
{
	_cleanup_(kallsyms_freep) struct kallsyms *kallsyms = NULL;
	struct header header, boot;
	struct stat st;
	uint32_t module;
	_cleanup_(fd_closep) int fd = own_dir_open_file(directory, CACHE_NAME, &st);
	if (fd < 0)
		return fd;
	if (!describe_boot(symbols_path, boot_id_path, &boot))
		return -ESTALE;
	if (io_pread(fd, &header, sizeof(header), 0, CACHE_NAME, NULL) != (ssize_t)sizeof(header) ||
	    !is_of_boot(&header, &boot, (uint64_t)st.st_size))
		return -ESTALE;
	int r = kallsyms_new("", &kallsyms, NULL);
	if (r == 0)
		r = read_run(fd, &header, &kallsyms->runs[0]);
	if (r == 0 && intern_add_string(&kallsyms->modules, KALLSYMS_CORE_MODULE, &module) < 0)
		r = -ENOMEM;
	if (r < 0)
		return r;
	kallsyms->symbol_count = header.symbol_count;
	kallsyms->core_start = header.core_start;
	kallsyms->core_end = header.core_end;
	kallsyms->core_only = true;
	*ret = TAKE(kallsyms);
	return 0;
}

int kallsyms_load_core(const char *directory, struct kallsyms **ret)
{
	_cleanup_(fd_closep) int fd = own_dir_open(directory, "the cache", NULL);
	return fd < 0 ? fd : kallsyms_cache_load(fd, "/proc/kallsyms", BOOT_ID_PATH, ret);
}

bool kallsyms_is_core_only(const struct kallsyms *kallsyms)
{
	return kallsyms->core_only;
}

/* ---- saving ---- */

int kallsyms_cache_save(int directory, const char *symbols_path, const char *boot_id_path, const struct kallsyms *kallsyms)
{
	const struct kallsyms_run *run = &kallsyms->runs[0];
	struct header header;
	uint64_t start, end;
	/* What lies among the core's functions and came in another order is not in this run. */
	if (kallsyms->core_only || !kallsyms_core(kallsyms, &start, &end) || kallsyms_late_before(kallsyms, end - 1) >= start ||
	    !describe_boot(symbols_path, boot_id_path, &header))
		return -ENODATA;
	header.core_start = start;
	header.core_end = end;
	header.symbol_count = kallsyms->symbol_count;
	header.entry_count = run->entry_count;
	header.block_count = run->block_count;
	header.data_len = run->data.len;
	header.checksum = checksum_of(&header, run);
	const struct bytes pieces[] = {{(const uint8_t *)&header, sizeof(header)},
				       {(const uint8_t *)run->blocks, run->block_count * sizeof(*run->blocks)},
				       buffer_bytes(&run->data)};
	return own_dir_write_file(directory, CACHE_NAME, pieces, sizeof(pieces) / sizeof(pieces[0]));
}

void kallsyms_save_core(const struct kallsyms *kallsyms, const char *directory)
{
	_cleanup_(fd_closep) int fd = own_dir_open(directory, "the cache", NULL);
	if (fd >= 0)
		kallsyms_cache_save(fd, "/proc/kallsyms", BOOT_ID_PATH, kallsyms);
}
