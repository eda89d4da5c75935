// SPDX-License-Identifier: Apache-2.0
#include "elf/file_ids.h"

#include <errno.h>
#include <string.h>

#include "elf/compiler.h"

#define GO_BUILD_ID_MIN 20 /* characters; a real one has 83, or 41 of a library */

const char *const file_id_type_names[FILE_ID_TYPES] = {"gnu", "hash", "go"};

bool file_id_type_parse(const char *name, enum file_id_type *ret)
{
	for (unsigned i = 0; i < FILE_ID_TYPES; i++) {
		if (strcmp(name, file_id_type_names[i]) != 0)
			continue;
		*ret = i;
		return true;
	}
	return false;
}

bool file_id_of_go(struct bytes go_build_id, char out[static BUILD_ID_HEX_MAX])
{
	if (go_build_id.len < GO_BUILD_ID_MIN)
		return false;
	build_id_format(go_build_id.data, go_build_id.len, out);
	return true;
}

static bool has_go_id(int fd, const char *id)
{
	char own[BUILD_ID_HEX_MAX];
	struct compiler compiler;
	return compiler_read_fd(fd, &compiler, NULL) == 0 && file_id_of_go(bytes_of_string(compiler.go_build_id), own) &&
	       strcmp(own, id) == 0;
}

int file_has_id(int fd, const char *id)
{
	char own[BUILD_ID_HEX_MAX], hash[FILE_HASH_HEX];
	int r = build_id_read_fd(fd, own, NULL);
	if (r == -ENOMEM)
		return r;
	if (r < 0 && r != -ENOENT)
		return -ENOENT; /* no ELF file */
	if (r == 0 && strcmp(own, id) == 0)
		return 0;
	r = file_hash_read_fd(fd, hash, NULL);
	if (r == 0 && strcmp(hash, id) == 0)
		return 1;
	return r == -ENOMEM ? r : has_go_id(fd, id) ? 1 : -ENOENT;
}

bool file_has_code(const struct elf_file *file)
{
	for (size_t i = 0; file->sections && i < file->section_count; i++) {
		const struct elf_section *s = &file->sections[i];
		uint64_t offset;
		if (s->type == SHT_PROGBITS && (s->flags & SHF_ALLOC) && (s->flags & SHF_EXECINSTR) && s->size > 0)
			return elf_file_find_loaded(file, s->address, &offset) && offset == s->offset;
	}
	return false;
}

int file_ids_read_fd(int fd, struct file_ids *ret, struct error *err)
{
	_cleanup_(elf_file_release) struct elf_file file = {0};
	struct compiler compiler;
	struct error problem = {0};
	*ret = (struct file_ids){0};
	int r = elf_file_open(&file, fd, "the file", err);
	if (!r)
		r = build_id_read(&file, ret->ids[FILE_ID_GNU], err);
	if (r < 0 && r != -ENOENT)
		return r;
	r = elf_file_load_sections(&file, &problem);
	if (r == -ENOMEM)
		return error_nomem(err);
	if (!r && file_has_code(&file))
		r = file_hash_read_fd(fd, ret->ids[FILE_ID_HASH], err);
	if (r < 0 && r != -EBADMSG && r != -E2BIG)
		return r;
	if (compiler_read(&file, &compiler, NULL) == 0)
		file_id_of_go(bytes_of_string(compiler.go_build_id), ret->ids[FILE_ID_GO]);
	return 0;
}
