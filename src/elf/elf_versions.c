/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The versions that a file defines (SHT_GNU_verdef; LSB Core, 10.7.2): a chain of entries, each with a chain of names, of which
 * the first is the version's own. Static linkers append them to names in .symtab ("memcpy@@GLIBC_2.14"), where nothing but the
 * list of versions distinguishes them from an '@' that a compiler put into the name itself.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/elf_symbols_int.h"

#define VERSIONS_MAX	   65536u
#define VERSION_BYTES_MAX  (4 * MIB)
#define VERSION_STRTAB_MAX (64 * MIB)

/* Elf32_Verdef equals Elf64_Verdef, and so do the names' entries. */
static int add_versions(struct intern *names, struct bytes table, struct bytes strings)
{
	size_t at = 0;
	for (unsigned i = 0; i < VERSIONS_MAX; i++) {
		Elf64_Verdef entry;
		Elf64_Verdaux name;
		if (at > table.len || table.len - at < sizeof(entry))
			return 0;
		memcpy(&entry, (const uint8_t *)table.data + at, sizeof(entry));
		if (entry.vd_aux > table.len - at || table.len - at - entry.vd_aux < sizeof(name))
			return 0;
		memcpy(&name, (const uint8_t *)table.data + at + entry.vd_aux, sizeof(name));
		/* The base version is the file's own name. */
		if (!(entry.vd_flags & VER_FLG_BASE) && name.vda_name < strings.len) {
			const char *text = (const char *)strings.data + name.vda_name;
			uint32_t id;
			int r = intern_add(names, text, strnlen(text, ELF_SYMBOL_NAME_MAX), &id);
			if (r < 0)
				return r == -E2BIG ? 0 : r;
		}
		if (entry.vd_next == 0)
			return 0;
		at += entry.vd_next;
	}
	return 0;
}

int elf_versions_read(struct elf_versions *versions, struct elf_file *file, struct error *err)
{
	const struct elf_section *table = elf_file_find_section_type(file, SHT_GNU_verdef);
	if (!table) {
		versions->state = elf_file_find_section(file, ".gnu.version_d") ? VERSIONS_UNKNOWN : VERSIONS_NONE;
		return 0;
	}
	versions->state = VERSIONS_UNKNOWN;
	if (table->link >= file->section_count || table->size > VERSION_BYTES_MAX)
		return 0;
	struct bytes entries = {0}, strings = {0};
	int r = elf_file_read_section(file, table, VERSION_BYTES_MAX, &entries, err);
	if (r == 0)
		r = elf_file_read_section(file, &file->sections[table->link], VERSION_STRTAB_MAX, &strings, err);
	if (r == 0)
		r = intern_init(&versions->names, VERSION_BYTES_MAX);
	if (r == 0) {
		versions->state = VERSIONS_KNOWN;
		r = add_versions(&versions->names, entries, strings);
	}
	mem_free((void *)entries.data);
	mem_free((void *)strings.data);
	/* Damage costs the list only. */
	if (r >= 0 || r == -EBADMSG || r == -ENOTSUP || r == -E2BIG)
		return 0;
	elf_versions_release(versions);
	return r == -ENOMEM ? error_nomem(err) : r;
}

void elf_versions_release(struct elf_versions *versions)
{
	if (versions->state == VERSIONS_KNOWN)
		intern_release(&versions->names);
	versions->state = VERSIONS_NONE;
}

/* Where nobody can know, what looks like a version is one. */
static bool looks_like_version(const char *text)
{
	return text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-+")] == 0;
}

char *elf_versions_find(const struct elf_versions *versions, char *name, size_t len)
{
	char *at = versions->state == VERSIONS_NONE ? NULL : memrchr(name, '@', len);
	if (!at || at == name || at[1] == 0)
		return NULL;
	uint32_t id;
	const char *text = at + 1;
	bool is_version = versions->state == VERSIONS_KNOWN
				  ? intern_find(&versions->names, text, len - (size_t)(text - name), &id)
				  : looks_like_version(text);
	if (!is_version)
		return NULL;
	return at > name + 1 && at[-1] == '@' ? at - 1 : at;
}
