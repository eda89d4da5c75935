/* SPDX-License-Identifier: Apache-2.0 */
#include "control/self_writer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"
#include "elf/build_id.h"
#include "format/format.h"

#define MAPPINGS_MAX 1024u
#define OWN_PROGRAM  "/proc/self/exe"

/* ---- what is mapped ---- */

/* What has no file has no names, and is as good a mapping. program: the path of what runs. */
static int add_mapping(struct self_writer *writer, const char *path, const char *program, struct self_mapping mapping,
		       struct error *err)
{
	char build_id[BUILD_ID_HEX_MAX] = "";
	struct profile_mapping added = {.start = mapping.offset,
					.limit = mapping.offset + (mapping.end - mapping.start),
					.offset = mapping.offset,
					/* Else the tool asks us for names again, by addresses of the process. */
					.flags = PROFILE_MAPPING_HAS_FUNCTIONS};
	/* The program may have been replaced by a newer one: not what runs. */
	const char *file = *path != '/' ? NULL : strcmp(path, program) == 0 ? OWN_PROGRAM : path;
	_cleanup_(fd_closep) int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0 && build_id_read_fd(fd, build_id, NULL) == 0)
		symbolizer_offer(writer->symbolizer, build_id, "", path, fd, NULL);
	int r = profile_add_cstring(writer->profile, path, &added.file_name, err);
	if (r == 0)
		r = profile_add_cstring(writer->profile, build_id, &added.build_id, err);
	if (r == 0)
		r = profile_add_mapping(writer->profile, &added, &mapping.id, err);
	if (r < 0)
		return r;
	struct self_mappings *mappings = &writer->mappings;
	mapping.path = file ? mem_strdup(file) : NULL;
	if ((file && !mapping.path) ||
	    array_reserve(&mappings->items, &mappings->capacity, mappings->count + 1, MAPPINGS_MAX) < 0) {
		mem_free(mapping.path);
		return error_nomem(err);
	}
	mappings->items[mappings->count++] = mapping;
	return 0;
}

static bool is_known(const struct self_writer *writer, const struct self_mapping *mapping)
{
	const struct self_mapping *known = self_mappings_find(&writer->mappings, mapping->start);
	return known && known->start == mapping->start && known->end == mapping->end;
}

/* The program comes first, as pprof wants it. */
int self_writer_read_mappings(struct self_writer *writer, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	int r = io_read_file("/proc/self/maps", 16u * 1024 * 1024, &text, err);
	char *rest = r < 0 || !text.len ? NULL : (char *)buffer_string(&text), *line;
	char program[PATH_MAX];
	ssize_t len = readlink(OWN_PROGRAM, program, sizeof(program) - 1);
	program[len > 0 ? len : 0] = '\0';
	writer->mapped_ns = time_monotonic_ns();
	while (r == 0 && rest && (line = strsep(&rest, "\n"))) {
		struct self_mapping mapping = {0};
		char permissions[8];
		int path = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &mapping.start, &mapping.end,
			   permissions, &mapping.offset, &path) < 4 ||
		    !strchr(permissions, 'x') || path <= 0 || is_known(writer, &mapping) ||
		    writer->mappings.count == MAPPINGS_MAX)
			continue;
		r = add_mapping(writer, line[path] ? line + path : "[anon]", program, mapping, err);
	}
	return r;
}

/* ---- the profile ---- */

int self_writer_init(struct self_writer *writer, const struct symbol_worker_options *worker, struct error *err)
{
	const struct symbolizer_options options = {.worker = worker, .own_files = true};
	int r = profile_new(&writer->profile, err);
	if (r == 0)
		r = symbolizer_new(&options, &writer->symbolizer, err);
	if (r < 0)
		return r;
	writer->profile->time_ns = time_now_ns();
	return self_writer_read_mappings(writer, err);
}

void self_writer_release(struct self_writer *writer)
{
	symbolizer_free(writer->symbolizer);
	profile_free(writer->profile);
	self_mappings_release(&writer->mappings);
}

int self_writer_add_stack(struct self_writer *writer, const uint64_t *addresses, size_t depth, uint32_t *ret, struct error *err)
{
	uint32_t locations[SELF_FRAMES_MAX];
	size_t count = 0;
	for (size_t i = 0; i < depth && i < SELF_FRAMES_MAX; i++) {
		const struct self_mapping *mapping = self_mappings_find(&writer->mappings, addresses[i]);
		if (!mapping)
			break;
		struct profile_location location = {.mapping = mapping->id,
						    .address = addresses[i] - mapping->start + mapping->offset,
						    .frame_type = PROFILE_FRAME_NATIVE};
		int r = profile_add_location(writer->profile, &location, NULL, 0, &locations[count++], err);
		if (r < 0)
			return r;
	}
	return profile_add_stack_leaf_first(writer->profile, locations, count, ret, err);
}

int self_writer_add_program(struct self_writer *writer, struct error *err)
{
	const int64_t values[SELF_VALUES_MAX] = {0};
	const uint64_t address = (uint64_t)(uintptr_t)self_writer_add_program;
	struct profile_sample added = {0};
	int r = self_writer_add_stack(writer, &address, 1, &added.stack, err);
	return r < 0 ? r : profile_add_sample(writer->profile, &added, values, err);
}

int self_writer_add_names(struct self_writer *writer, struct error *err)
{
	return symbolizer_resolve(writer->symbolizer, writer->profile, 1, NULL, NULL, err);
}

int self_writer_encode(const struct self_writer *writer, struct buffer *out, struct error *err)
{
	const struct format_options options = {.compress = true};
	return pprof_encode(writer->profile, &options, out, err);
}
