/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Pyroscope and Parca take: series of labels, each with profiles in pprof, gzipped one by one.
 *
 *   Pyroscope  push.v1.PushRequest { 1 series: RawProfileSeries { 1 labels: LabelPair { 1 name, 2 value },
 *              2 samples: RawSample { 1 raw_profile, 2 ID } } }
 *   Parca      parca.profilestore.v1alpha1.WriteRawRequest { 2 series: RawProfileSeries { 1 labels: LabelSet { 1 labels:
 *              Label { 1 name, 2 value } }, 2 samples: RawSample { 1 raw_profile } }, 3 normalized }
 *
 * A profile becomes a series for each service in it. The series has what holds for the whole profile (host, environment ...),
 * __name__ and service_name: the sample's own label of that name, else the name of its executable. Everything else that tells
 * samples apart stays with them as pprof labels, which both servers know how to query, but for what the target drops: to
 * Pyroscope each combination of labels is a series, so numbers of processes and threads are dropped unless it is said
 * otherwise. Samples that become equal by it are summed.
 *
 * Parca's normalized addresses are those of the binary as it was linked. Profiles here have offsets in the file; the binary's
 * program headers tell the one from the other, if it can be found on this host under its path with its build-id. Where it
 * cannot, the offset stands for the address, which is the same for what GNU ld links with its defaults. Where no name was
 * found, Pyroscope, which shows names only, is given FILE+0xOFFSET.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/map.h"
#include "base/text.h"
#include "codec/protobuf.h"
#include "elf/build_id.h"
#include "elf/file_ids.h"
#include "export/export_int.h"
#include "format/otlp/otlp.h"
#include "profile/labels.h"
#include "profile/merge.h"
#include "profile/type.h"

#define GROUPS_MAX	  4096u
#define SERVICE_UNKNOWN	  "unknown"
#define SEGMENTS_KEPT	  8u
#define SEGMENT_FILES_MAX 1024u

static const char *const pyroscope_drops[] = {"process_pid", "process_parent_pid", "thread_id", "thread_name",
					      "process_command_line"};

/* ---- addresses as linked ---- */

struct load_segments {
	struct map64 index; /* hash of a build-id: place in files, plus 1 */
	struct segment_file {
		struct {
			uint64_t offset, size, address;
		} segments[SEGMENTS_KEPT];
		size_t count;
	} * files;
	size_t count, capacity;
};

struct load_segments *load_segments_free(struct load_segments *segments)
{
	if (!segments)
		return NULL;
	map64_release(&segments->index);
	mem_free(segments->files);
	return mem_free(segments);
}

static void read_segments(const char *path, const char *build_id, struct segment_file *ret)
{
	struct elf_file file;
	int fd = *path == '/' ? io_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, NULL) : -1;
	if (fd < 0)
		return;
	if (elf_file_open(&file, fd, path, NULL) == 0) {
		bool same = file_has_id(fd, build_id) >= 0;
		for (size_t i = 0; i < file.segment_count && same && ret->count < SEGMENTS_KEPT; i++) {
			const struct elf_segment *segment = &file.segments[i];
			if (!elf_segment_is_executed(segment))
				continue;
			ret->segments[ret->count].offset = segment->offset;
			ret->segments[ret->count].size = segment->file_size;
			ret->segments[ret->count++].address = segment->address;
		}
		elf_file_release(&file);
	}
	io_close(fd);
}

static int find_segments(struct sender *sender, const char *path, const char *build_id, const struct segment_file **ret,
			 struct error *err)
{
	uint64_t key = hash64(build_id, strlen(build_id)), place;
	struct load_segments *all = sender->segments;
	*ret = NULL;
	if (!build_id_is_valid(build_id) || !exporter_host_files(sender->exporter))
		return 0;
	if (!all) {
		all = sender->segments = mem_zalloc(sizeof(*all));
		if (!all)
			return error_nomem(err);
	}
	if (!map64_get(&all->index, key, &place)) {
		if (all->count == SEGMENT_FILES_MAX) {
			map64_clear(&all->index);
			all->count = 0;
		}
		if (array_reserve(&all->files, &all->capacity, all->count + 1, SEGMENT_FILES_MAX) < 0 ||
		    map64_put(&all->index, key, all->count + 1) < 0)
			return error_nomem(err);
		all->files[all->count] = (struct segment_file){0};
		read_segments(path, build_id, &all->files[all->count++]);
		place = all->count;
	}
	*ret = &all->files[place - 1];
	return 0;
}

static uint64_t linked_address(const struct segment_file *file, uint64_t offset)
{
	for (size_t i = 0; file && i < file->count; i++)
		if (offset >= file->segments[i].offset && offset - file->segments[i].offset < file->segments[i].size)
			return offset - file->segments[i].offset + file->segments[i].address;
	return offset;
}

/* In place: the profile is encoded next, and nothing is added to it any more. */
static int normalize(struct sender *sender, struct profile *profile, struct error *err)
{
	for (uint32_t i = 1; i < profile->location_count; i++) {
		struct profile_location *location = &profile->locations[i];
		const struct profile_mapping *mapping = &profile->mappings[location->mapping];
		const struct segment_file *file;
		if (!location->mapping || profile_mapping_is_linked(mapping->start, mapping->limit, mapping->offset))
			continue;
		int r = find_segments(sender, profile_string(profile, mapping->file_name),
				      profile_string(profile, mapping->build_id), &file, err);
		if (r < 0)
			return r;
		location->address = linked_address(file, profile_location_file_offset(profile, i));
	}
	/* What says to whoever looks that addresses need no shift. */
	for (uint32_t i = 1; i < profile->mapping_count; i++)
		profile_mapping_set_linked(&profile->mappings[i]);
	return 0;
}

/* ---- names for what has none ---- */

static int name_unnamed(struct profile *profile, struct error *err)
{
	int r = 0;
	for (uint32_t i = 1; i < profile->location_count && r == 0; i++) {
		const struct profile_location *location = &profile->locations[i];
		char name[256];
		struct profile_function function = {0};
		struct profile_line line = {0};
		if (location->line_count)
			continue;
		const char *file = text_base_name(profile_string(profile, profile->mappings[location->mapping].file_name));
		if (*file)
			snprintf(name, sizeof(name), "%.200s+0x%llx", file,
				 (unsigned long long)profile_location_file_offset(profile, i));
		else if (location->address)
			snprintf(name, sizeof(name), "0x%llx", (unsigned long long)location->address);
		else
			snprintf(name, sizeof(name), "[unknown]");
		r = profile_add_cstring(profile, name, &function.name, err);
		if (r == 0)
			r = profile_add_function(profile, &function, &line.function, err);
		if (r == 0)
			r = profile_set_location_lines(profile, i, &line, 1, err);
	}
	return r;
}

/* ---- groups ---- */

struct group {
	char *service;
	struct profile *profile;
	struct profile_copy *copy;
};
struct grouping {
	struct sender *sender;
	const struct profile *from;
	struct group *groups;
	size_t count, capacity;
	struct map64 by_service;
	uint32_t *group_of; /* by label set: group plus 1; 0 = not known yet */
	uint32_t *sets;	    /* by label set: the set in its group */
};

static void grouping_release(struct grouping *grouping)
{
	for (size_t i = 0; i < grouping->count; i++) {
		profile_copy_free(grouping->groups[i].copy);
		profile_free(grouping->groups[i].profile);
		mem_free(grouping->groups[i].service);
	}
	mem_free(grouping->groups);
	map64_release(&grouping->by_service);
	mem_free(grouping->group_of);
	mem_free(grouping->sets);
}

static int add_group(struct grouping *grouping, const char *service, uint32_t *ret, struct error *err)
{
	uint64_t place, key = hash64(service, strlen(service));
	if (map64_get(&grouping->by_service, key, &place)) {
		*ret = (uint32_t)place;
		return 0;
	}
	if (grouping->count == GROUPS_MAX)
		return error_set(err, -E2BIG, "a profile of more than %u services", GROUPS_MAX);
	if (array_reserve(&grouping->groups, &grouping->capacity, grouping->count + 1, GROUPS_MAX) < 0)
		return error_nomem(err);
	struct group *group = &grouping->groups[grouping->count];
	*group = (struct group){.service = mem_strdup(service)};
	*ret = (uint32_t)++grouping->count;
	int r = group->service && map64_put(&grouping->by_service, key, *ret) == 0 ? 0 : error_nomem(err);
	if (r == 0)
		r = export_start_profile(grouping->from, &group->profile, err);
	return r < 0 ? r : profile_copy_new(group->profile, grouping->from, &group->copy, err);
}

static bool is_dropped(const struct export_target *target, const char *name)
{
	char other[LIMIT_LABEL_NAME_BYTES];
	bool own = target->drop_labels || target->kind != EXPORT_PYROSCOPE;
	size_t count = own ? target->drop_label_count : sizeof(pyroscope_drops) / sizeof(*pyroscope_drops);
	for (size_t i = 0; i < count; i++) {
		label_name_sanitize(bytes_of_string(own ? target->drop_labels[i] : pyroscope_drops[i]), other);
		if (strcmp(other, name) == 0)
			return true;
	}
	return strcmp(name, "service_name") == 0;
}

/* The set's labels under the names that a series gives them, without those that are dropped. */
static int convert_set(struct grouping *grouping, uint32_t set, struct profile *to, uint32_t *ret, struct error *err)
{
	const struct profile *from = grouping->from;
	struct profile_label labels[LIMIT_LABELS_PER_SERIES];
	size_t count = 0;
	int r = 0;
	for (uint32_t i = 0; i < from->label_sets[set].count && count < LIMIT_LABELS_PER_SERIES && r == 0; i++) {
		const struct profile_label *label = &from->labels[from->label_sets[set].first + i];
		char name[LIMIT_LABEL_NAME_BYTES];
		label_name_sanitize(profile_string_bytes(from, label->key), name);
		if (is_dropped(grouping->sender->target, name))
			continue;
		struct bytes value = profile_string_bytes(from, label->value);
		labels[count] = (struct profile_label){.number = label->number};
		r = profile_add_cstring(to, name, &labels[count].key, err);
		if (r == 0)
			r = profile_add_string(to, value.data, value.len, &labels[count].value, err);
		if (r == 0)
			r = profile_add_cstring(to, profile_string(from, label->unit), &labels[count].unit, err);
		count++;
	}
	return r < 0 ? r : profile_add_label_set(to, labels, count, ret, err);
}

static int place_set(struct grouping *grouping, uint32_t set, struct error *err)
{
	_cleanup_(labels_release) struct labels labels = {0};
	int r = labels_of_sample(grouping->from, set, NULL, &labels, err);
	if (r < 0)
		return r;
	const char *service = labels_get(&labels, "service_name");
	if (!service)
		service = labels_get(&labels, "process_executable_name");
	r = add_group(grouping, service ? service : SERVICE_UNKNOWN, &grouping->group_of[set], err);
	if (r < 0)
		return r;
	return convert_set(grouping, set, grouping->groups[grouping->group_of[set] - 1].profile, &grouping->sets[set], err);
}

static int add_id(struct profile *to, const char *name, const uint8_t *id, size_t size, struct profile_label *ret,
		  struct error *err)
{
	char text[2 * 16 + 1];
	*ret = (struct profile_label){0};
	text_format_hex((struct bytes){id, size}, text);
	int r = profile_add_cstring(to, name, &ret->key, err);
	return r < 0 ? r : profile_add_cstring(to, text, &ret->value, err);
}

/* pprof has no links. Pyroscope takes the span and the trace of a sample from these labels of it, and makes no series of them.
 */
static int add_link(struct profile *to, const struct profile_link *link, uint32_t *set, struct error *err)
{
	static const struct profile_link none;
	struct profile_label labels[LIMIT_LABELS_PER_SERIES + 2];
	size_t count = to->label_sets[*set].count;
	int r = 0;
	for (size_t i = 0; i < count; i++)
		labels[i] = to->labels[to->label_sets[*set].first + i];
	if (memcmp(link->span_id, none.span_id, sizeof(none.span_id)) != 0)
		r = add_id(to, "span_id", link->span_id, sizeof(link->span_id), &labels[count++], err);
	if (r == 0 && memcmp(link->trace_id, none.trace_id, sizeof(none.trace_id)) != 0)
		r = add_id(to, "trace_id", link->trace_id, sizeof(link->trace_id), &labels[count++], err);
	return r < 0 ? r : profile_add_label_set(to, labels, count, set, err);
}

static int place_sample(struct grouping *grouping, size_t i, struct error *err)
{
	const struct profile *from = grouping->from;
	const struct profile_sample *sample = &from->samples[i];
	struct profile_sample copy = {0};
	int r = grouping->group_of[sample->labels] ? 0 : place_set(grouping, sample->labels, err);
	if (r < 0)
		return r;
	struct group *group = &grouping->groups[grouping->group_of[sample->labels] - 1];
	r = profile_copy_stack(group->copy, sample->stack, &copy.stack, err);
	copy.labels = grouping->sets[sample->labels];
	if (r == 0 && sample->link && grouping->sender->target->kind == EXPORT_PYROSCOPE)
		r = add_link(group->profile, &from->links[sample->link], &copy.labels, err);
	/* Others make series of them. */
	if (r == 0 && grouping->sender->target->kind == EXPORT_PYROSCOPE)
		r = profile_copy_label_set(group->copy, sample->numbers, &copy.numbers, err);
	return r < 0 ? r : profile_add_sample(group->profile, &copy, &from->values[i * from->sample_type_count], err);
}

/* ---- encoding ---- */

static void write_labels(struct buffer *out, const struct labels *labels, bool nested)
{
	size_t set = 0, label;
	if (nested)
		pb_begin(out, 1, &set);
	for (size_t i = 0; i < labels->count; i++) {
		pb_begin(out, 1, &label);
		pb_write_string(out, 1, labels->items[i].name);
		pb_write_string(out, 2, labels->items[i].value);
		pb_end(out, label);
	}
	if (nested)
		pb_end(out, set);
}

/* Equal bytes have equal ids, so that duplicates are recognized. */
static void make_id(struct bytes profile, char out[40])
{
	struct hash128 hash = hash128(profile.data, profile.len);
	snprintf(out, 40, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(hash.high >> 32), (unsigned)(hash.high >> 16) & 0xffff,
		 (unsigned)(hash.high & 0xfff) | 0x8000, (unsigned)(hash.low >> 48 & 0x3fff) | 0x8000,
		 (unsigned long long)(hash.low & 0xffffffffffffull));
}

static int write_series(struct sender *sender, const struct labels *labels, struct bytes profile, struct buffer *out)
{
	bool parca = sender->target->kind == EXPORT_PARCA;
	size_t series, sample;
	char id[40];
	make_id(profile, id);
	pb_begin(out, parca ? 2 : 1, &series);
	write_labels(out, labels, parca);
	pb_begin(out, 2, &sample);
	pb_write_bytes(out, 1, profile.data, profile.len);
	if (!parca)
		pb_write_string(out, 2, id);
	pb_end(out, sample);
	return pb_end(out, series);
}

static int series_labels(const struct profile *from, const struct group *group, bool pyroscope, struct labels *ret,
			 struct error *err)
{
	struct profile_type type;
	profile_type_of(from, 0, NULL, &type);
	int r = labels_of_sample(from, 0, NULL, ret, err);
	if (r == 0 && !labels_get(ret, "__name__")) /* a server that forwards may know better */
		r = labels_set(ret, "__name__", type.name, err);
	if (r == 0)
		r = labels_set(ret, "service_name", group->service, err);
	/* Values are of this profile's time alone: not to be subtracted from those before. */
	return r == 0 && pyroscope ? labels_set(ret, "__delta__", "false", err) : r;
}

static int encode_group(struct grouping *grouping, struct group *group, struct buffer *out, struct error *err)
{
	bool pyroscope = grouping->sender->target->kind == EXPORT_PYROSCOPE;
	struct format_options options = {.compress = true};
	_cleanup_(labels_release) struct labels labels = {0};
	_cleanup_(buffer_release) struct buffer packed = {.max = LIMIT_PROFILE_INPUT_BYTES};
	group->copy = profile_copy_free(group->copy);
	int r = profile_aggregate(group->profile, err);
	if (r == 0)
		r = pyroscope ? name_unnamed(group->profile, err) : normalize(grouping->sender, group->profile, err);
	if (r == 0)
		r = pprof_encode(group->profile, &options, &packed, err);
	group->profile = profile_free(group->profile);
	if (r == 0)
		r = series_labels(grouping->from, group, pyroscope, &labels, err);
	if (r < 0)
		return r;
	r = write_series(grouping->sender, &labels, buffer_bytes(&packed), out);
	return r < 0 ? error_set_errno(err, r, "the request is too large") : 0;
}

static int encode_profile(struct sender *sender, const struct profile *from, struct buffer *out, struct error *err)
{
	_cleanup_(grouping_release) struct grouping grouping = {.sender = sender, .from = from};
	grouping.group_of = mem_zalloc_array(from->label_set_count, sizeof(*grouping.group_of));
	grouping.sets = mem_zalloc_array(from->label_set_count, sizeof(*grouping.sets));
	if (!grouping.group_of || !grouping.sets)
		return error_nomem(err);
	int r = 0;
	for (size_t i = 0; i < from->sample_count && r == 0; i++)
		r = place_sample(&grouping, i, err);
	for (size_t i = 0; i < grouping.count && r == 0; i++)
		r = encode_group(&grouping, &grouping.groups[i], out, err);
	return r;
}

int series_encode(struct sender *sender, struct otlp_request *request, struct buffer *out, struct error *err)
{
	int r = 0;
	for (size_t i = 0; i < request->count && r == 0; i++)
		r = encode_profile(sender, request->profiles[i], out, err);
	if (r == 0 && out->len && sender->target->kind == EXPORT_PARCA && pb_write_varint(out, 3, 1) < 0)
		r = error_set(err, -E2BIG, "the request is too large");
	return r;
}
