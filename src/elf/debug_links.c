/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .gnu_debuglink (GDB manual, "Debugging Information in Separate Files"): a base name, a NUL, zeros up to a multiple of four
 * bytes, and the CRC-32 of the file that is meant. .gnu_debugaltlink (dwz): a path, a NUL, and the build-id of the file until
 * the end of the section.
 *
 * Both names end up in paths that somebody opens. A base name with a directory in it is damage, not a request.
 */
#include "elf/debug_links.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#define LINK_BYTES_MAX (DEBUG_LINK_NAME_MAX + 4 + BUILD_ID_BYTES_MAX)

static int damaged(const struct elf_file *file, const char *section, const char *why, struct error *err)
{
	return error_set(err, -EBADMSG, "%s: damaged %s: %s", file->name, section, why);
}

/* The section and the length of the name that it starts with. */
static int read_link(struct elf_file *file, const char *name, struct bytes *ret, size_t *ret_name_len, struct error *err)
{
	int r = elf_file_load_sections(file, err);
	if (r < 0)
		return r;
	const struct elf_section *section = elf_file_find_contents(file, name);
	if (!section)
		return error_set(err, -ENOENT, "%s: no section %s", file->name, name);
	struct bytes data;
	r = elf_file_read_section(file, section, LINK_BYTES_MAX, &data, err);
	if (r == -E2BIG)
		return damaged(file, name, "it is too long", err);
	if (r < 0)
		return r;
	size_t len = strnlen((const char *)data.data, data.len);
	if (len == 0 || len >= data.len || len >= DEBUG_LINK_NAME_MAX) {
		mem_free((void *)data.data);
		return damaged(file, name, "it has no file name", err);
	}
	*ret = data;
	*ret_name_len = len;
	return 0;
}

static bool is_base_name(const char *name)
{
	return !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

int elf_read_debuglink(struct elf_file *file, char ret_name[static DEBUG_LINK_NAME_MAX], uint32_t *ret_crc, struct error *err)
{
	struct bytes data;
	size_t len;
	int r = read_link(file, ".gnu_debuglink", &data, &len, err);
	if (r < 0)
		return r;
	_cleanup_(mem_freep) uint8_t *memory = (uint8_t *)data.data;
	size_t crc_at = (len + 1 + 3) & ~(size_t)3;
	if (data.len < crc_at + 4)
		return damaged(file, ".gnu_debuglink", "it has no checksum", err);
	if (!is_base_name((const char *)memory))
		return damaged(file, ".gnu_debuglink", "its file name contains a directory", err);
	memcpy(ret_name, memory, len + 1);
	memcpy(ret_crc, memory + crc_at, 4);
	return 0;
}

int elf_read_debugaltlink(struct elf_file *file, char ret_name[static DEBUG_LINK_NAME_MAX],
			  char ret_build_id[static BUILD_ID_HEX_MAX], struct error *err)
{
	struct bytes data;
	size_t len;
	int r = read_link(file, ".gnu_debugaltlink", &data, &len, err);
	if (r < 0)
		return r;
	_cleanup_(mem_freep) uint8_t *memory = (uint8_t *)data.data;
	const uint8_t *id = memory + len + 1;
	size_t id_len = data.len - len - 1;
	if (id_len == 0 || id_len > BUILD_ID_BYTES_MAX)
		return damaged(file, ".gnu_debugaltlink", "it has no build-id", err);
	memcpy(ret_name, memory, len + 1);
	build_id_format(id, id_len, ret_build_id);
	return 0;
}
