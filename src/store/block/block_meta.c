/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta.json: what a block is, and which files it is made of. One line of JSON whose last key is the checksum of all bytes
 * before it, so that it can be checked before it is parsed, by whoever has a text editor and xxh64sum.
 *
 * Version 1 knew eight files, all there, and no labels. Version 2 lists the files that are there. In version 3 the
 * rows of row groups of samples may be ordered by partitions of time.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/sorted.h"
#include "base/text.h"
#include "codec/json.h"
#include "store/block/block.h"

#define CHECKSUM_KEY  ",\"checksum\":\""
#define HASH_DIGITS   16
#define CORRECTED_MAX (64 * 1024)	  /* longer ones take too long to try */
#define FILES_OF_1    (BLOCK_APPENDS + 1) /* of version 1 */

const char *const block_file_names[BLOCK_FILE_COUNT + 1] = {
	[BLOCK_SAMPLES] = "samples.parquet",
	[BLOCK_SERIES] = "series.parquet",
	[BLOCK_STACKS] = "stacks.parquet",
	[BLOCK_LOCATIONS] = "locations.parquet",
	[BLOCK_LINES] = "lines.parquet",
	[BLOCK_FUNCTIONS] = "functions.parquet",
	[BLOCK_MAPPINGS] = "mappings.parquet",
	[BLOCK_APPENDS] = "appends.parquet",
	[BLOCK_LABELS] = "labels.parquet",
	[BLOCK_TOTALS] = "totals.parquet",
	[BLOCK_ROLLUP_5M] = "rollup_5m.parquet",
	[BLOCK_ROLLUP_1H] = "rollup_1h.parquet",
	[BLOCK_ROLLUP_ALL] = "rollup_all.parquet",
	[BLOCK_PROCESSES] = "processes.parquet",
	[BLOCK_META] = "meta.json",
};

void block_meta_release(struct block_meta *meta)
{
	for (size_t i = 0; i < meta->label_count; i++)
		mem_free(meta->labels[i].name);
	mem_free(meta->labels);
	mem_free(meta->types);
	mem_free(meta->replaces);
	*meta = (struct block_meta){0};
}

uint64_t block_meta_bytes(const struct block_meta *meta)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++)
		bytes += meta->files[i].size;
	return bytes;
}

void block_meta_set_name(struct block_meta *meta)
{
	int len = snprintf(meta->name, sizeof(meta->name), "%019" PRId64 "-%010" PRIu64, meta->min_ns, meta->last_sequence);
	if (meta->generation)
		snprintf(meta->name + len, sizeof(meta->name) - (size_t)len, "-g%u", meta->generation);
}

int block_meta_set_replaces(struct block_meta *meta, const char (*names)[BLOCK_NAME_MAX], size_t count, struct error *err)
{
	if (count > BLOCK_REPLACES_MAX)
		return error_set(err, -E2BIG, "a block can replace %d others, not %zu", BLOCK_REPLACES_MAX, count);
	meta->replaces = mem_alloc_array(count, sizeof(*meta->replaces));
	if (!meta->replaces)
		return error_nomem(err);
	if (count)
		memcpy(meta->replaces, names, count * sizeof(*meta->replaces));
	meta->replace_count = count;
	return 0;
}

void block_losses_add(struct block_losses *losses, uint64_t rows, int64_t from_ns, int64_t to_ns)
{
	if (!rows)
		return;
	losses->from_ns = losses->rows == 0 || from_ns < losses->from_ns ? from_ns : losses->from_ns;
	losses->to_ns = losses->rows == 0 || to_ns > losses->to_ns ? to_ns : losses->to_ns;
	losses->rows += rows;
}

const struct block_label_name *block_meta_label(const struct block_meta *meta, const char *name)
{
	return sorted_find_name(meta->labels, meta->label_count, name);
}

/* ---- reading ---- */

static bool parse_hash(const char *text, uint64_t *ret)
{
	for (size_t i = 0; i < HASH_DIGITS; i++)
		if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
			return false;
	*ret = strtoull(text, NULL, 16);
	return true;
}

/* The text ends with ,"checksum":"0123456789abcdef"} and a newline. */
static bool checksum_matches(struct bytes text)
{
	char tail[sizeof(CHECKSUM_KEY) + HASH_DIGITS + 3];
	size_t tail_len = sizeof(CHECKSUM_KEY) - 1 + HASH_DIGITS + 3;
	uint64_t hash;
	if (text.len < tail_len)
		return false;
	memcpy(tail, text.data + text.len - tail_len, tail_len);
	tail[tail_len] = '\0';
	const char *digits = tail + sizeof(CHECKSUM_KEY) - 1;
	return !memcmp(tail, CHECKSUM_KEY, sizeof(CHECKSUM_KEY) - 1) && parse_hash(digits, &hash) &&
	       !strcmp(digits + HASH_DIGITS, "\"}\n") && hash == hash64(text.data, text.len - tail_len);
}

static bool get_int(const json_t *object, const char *key, int64_t *ret)
{
	const json_t *value = json_object_get(object, key);
	*ret = json_integer_value(value);
	return json_is_integer(value);
}

static bool get_count(const json_t *object, const char *key, uint64_t *ret)
{
	int64_t value;
	if (!get_int(object, key, &value) || value < 0)
		return false;
	*ret = (uint64_t)value;
	return true;
}

static bool get_small(const json_t *object, const char *key, unsigned most, unsigned *ret)
{
	uint64_t value;
	if (!get_count(object, key, &value) || value > most)
		return false;
	*ret = (unsigned)value;
	return true;
}

static bool get_name(const json_t *value, char ret[static BLOCK_NAME_MAX])
{
	const char *name = json_string_value(value);
	if (!name || !*name || strlen(name) >= BLOCK_NAME_MAX || strchr(name, '/'))
		return false;
	memcpy(ret, name, strlen(name) + 1);
	return true;
}

/* Of a file that this program does not know nothing is kept: as with columns, there may be more than it can use. */
static bool get_file(const json_t *file, struct block_meta *ret, unsigned *seen)
{
	const char *name = json_string_value(json_object_get(file, "name"));
	const char *hash = json_string_value(json_object_get(file, "footer_xxh3"));
	int which = text_find_name(block_file_names, BLOCK_FILE_COUNT, name);
	if (name && which < 0)
		return true;
	if (!name || !hash || strlen(hash) != HASH_DIGITS || *seen & 1u << which)
		return false;
	*seen |= 1u << which;
	struct parquet_written *written = &ret->files[which];
	return parse_hash(hash, &written->footer_hash) && get_count(file, "bytes", &written->size) &&
	       get_count(file, "rows", &written->rows) && written->size > 0;
}

static bool get_files(const json_t *root, struct block_meta *ret)
{
	const json_t *files = json_object_get(root, "files"), *file;
	const unsigned all_of_1 = (1u << FILES_OF_1) - 1;
	unsigned seen = 0;
	size_t i;
	json_array_foreach(files, i, file)
	{
		if (!get_file(file, ret, &seen))
			return false;
	}
	if (ret->version == 1)
		return seen == all_of_1;
	return (seen & all_of_1) == all_of_1 || (seen & all_of_1) == (all_of_1 & ~(1u << BLOCK_SAMPLES));
}

static bool get_part(const json_t *object, const char *key, char *out, size_t size)
{
	const char *text = json_string_value(json_object_get(object, key));
	if (!text || strlen(text) >= size)
		return false;
	memcpy(out, text, strlen(text) + 1);
	return true;
}

static bool get_use(const json_t *object, struct block_use *ret)
{
	return get_count(object, "series", &ret->series) && get_count(object, "samples", &ret->samples) &&
	       get_int(object, "first_ns", &ret->first_ns) && get_int(object, "last_ns", &ret->last_ns);
}

static bool get_type(const json_t *object, struct block_type *ret)
{
	struct profile_type *type = &ret->type;
	const json_t *delta = json_object_get(object, "delta");
	type->delta = json_is_true(delta);
	return json_is_boolean(delta) && get_part(object, "name", type->name, sizeof(type->name)) &&
	       get_part(object, "sample_type", type->sample_type, sizeof(type->sample_type)) &&
	       get_part(object, "sample_unit", type->sample_unit, sizeof(type->sample_unit)) &&
	       get_part(object, "period_type", type->period_type, sizeof(type->period_type)) &&
	       get_part(object, "period_unit", type->period_unit, sizeof(type->period_unit)) && get_use(object, &ret->use);
}

static int get_types(const json_t *root, struct block_meta *ret)
{
	const json_t *types = json_object_get(root, "types"), *complete = json_object_get(root, "types_complete");
	size_t count = json_array_size(types);
	if (!json_is_array(types) || count > BLOCK_META_TYPES || !json_is_boolean(complete))
		return -EBADMSG;
	ret->types_complete = json_is_true(complete);
	ret->types = mem_zalloc_array(count, sizeof(*ret->types));
	if (!ret->types)
		return -ENOMEM;
	for (; ret->type_count < count; ret->type_count++)
		if (!get_type(json_array_get(types, ret->type_count), &ret->types[ret->type_count]))
			return -EBADMSG;
	return 0;
}

static int get_labels(const json_t *root, struct block_meta *ret)
{
	const json_t *labels = json_object_get(root, "labels"), *label;
	size_t count = json_array_size(labels), i;
	if (!json_is_array(labels) || count > BLOCK_META_LABELS || !json_is_boolean(json_object_get(root, "labels_complete")))
		return -EBADMSG;
	ret->labels_complete = json_is_true(json_object_get(root, "labels_complete"));
	ret->labels = mem_zalloc_array(count, sizeof(*ret->labels));
	if (!ret->labels)
		return -ENOMEM;
	json_array_foreach(labels, i, label)
	{
		struct block_label_name *to = &ret->labels[i];
		const char *name = json_string_value(json_object_get(label, "name"));
		const json_t *kept = json_object_get(label, "in_rollups");
		if (!name || !label_name_is_valid(name) || (i && strcmp(ret->labels[i - 1].name, name) >= 0) ||
		    !get_count(label, "values", &to->values) || !get_use(label, &to->use) || !json_is_boolean(kept))
			return -EBADMSG;
		to->in_rollups = json_is_true(kept);
		to->name = mem_strdup(name);
		if (!to->name)
			return -ENOMEM;
		ret->label_count++;
	}
	return 0;
}

static int get_replaces(const json_t *root, struct block_meta *ret)
{
	const json_t *names = json_object_get(root, "replaces"), *name;
	size_t count = json_array_size(names), i;
	if (!json_is_array(names) || count > BLOCK_REPLACES_MAX)
		return -EBADMSG;
	ret->replaces = mem_alloc_array(count, sizeof(*ret->replaces));
	if (!ret->replaces)
		return -ENOMEM;
	json_array_foreach(names, i, name)
	{
		if (!get_name(name, ret->replaces[i]))
			return -EBADMSG;
		ret->replace_count++;
	}
	return 0;
}

static bool get_partitions(const json_t *root, struct block_meta *ret)
{
	if (ret->version < 3)
		return true;
	return get_int(root, "partition_ns", &ret->partition_ns) && ret->partition_ns >= 0;
}

/* Only there if something was lost. */
static bool get_lost(const json_t *root, struct block_losses *ret)
{
	const json_t *lost = json_object_get(root, "lost");
	if (json_object_get(lost, "names") && !get_count(lost, "names", &ret->names))
		return false;
	return !lost || (get_count(lost, "rows", &ret->rows) && get_int(lost, "from_ns", &ret->from_ns) &&
			 get_int(lost, "to_ns", &ret->to_ns) && ret->from_ns <= ret->to_ns);
}

static int get_version_2(const json_t *root, struct block_meta *ret)
{
	if (!get_small(root, "level", BLOCK_LEVELS - 1, &ret->level) ||
	    !get_small(root, "generation", INT_MAX, &ret->generation) || !get_int(root, "mean_ns", &ret->mean_ns) ||
	    !get_count(root, "rollup_series", &ret->rollup_series) || !get_partitions(root, ret) || !get_lost(root, &ret->lost))
		return -EBADMSG;
	/* Blocks written before it was counted have none. */
	ret->counts_profiles = json_is_true(json_object_get(root, "counts_profiles"));
	int r = get_types(root, ret);
	if (r == 0)
		r = get_labels(root, ret);
	return r == 0 ? get_replaces(root, ret) : r;
}

static int get_meta(const json_t *root, struct block_meta *ret)
{
	if (!get_name(json_object_get(root, "name"), ret->name) || !get_files(root, ret) ||
	    !get_int(root, "created_ns", &ret->created_ns) || !get_int(root, "min_ns", &ret->min_ns) ||
	    !get_int(root, "max_ns", &ret->max_ns) || !get_count(root, "last_sequence", &ret->last_sequence) ||
	    !get_count(root, "samples", &ret->samples) || !get_count(root, "series", &ret->series) || ret->min_ns > ret->max_ns)
		return -EBADMSG;
	if (ret->version > 1)
		return get_version_2(root, ret);
	ret->mean_ns = ret->min_ns + (int64_t)(((uint64_t)ret->max_ns - (uint64_t)ret->min_ns) / 2);
	return 0;
}

static int parse_meta(const char *path, struct bytes text, struct block_meta *ret, struct error *err)
{
	json_error_t fault;
	_cleanup_(json_decrefp) json_t *root = json_loadb((const char *)text.data, text.len, 0, &fault);
	const char *format = json_string_value(json_object_get(root, "format"));
	int64_t version = 0;
	bool is_ours = format && !strcmp(format, "wick block") && get_int(root, "version", &version);
	int r = is_ours && version >= 1 ? 0 : -EBADMSG;
	/* The version first: a newer one may have another layout, and must not be taken for damage. */
	if (r == 0 && version > BLOCK_VERSION)
		return error_set(err, -ENOTSUP,
				 "%s has version %" PRId64 ", and this program supports versions up to %d: use a newer wick",
				 path, version, BLOCK_VERSION);
	ret->version = (unsigned)version;
	if (r == 0)
		r = checksum_matches(text) ? get_meta(root, ret) : -EBADMSG;
	if (r == -ENOMEM)
		error_nomem(err);
	else if (r < 0)
		error_set(err, r, "%s is malformed or does not match its checksum", path);
	return r;
}

static int read_text(const char *directory, char path[PATH_MAX], struct buffer *text, struct error *err)
{
	struct error cause = {0};
	int r = io_join_path(path, PATH_MAX, directory, "meta.json");
	if (r < 0)
		return error_set_errno(err, r, "%s", directory);
	r = io_read_file(path, BLOCK_META_MAX, text, &cause);
	/* What is not there is damage, not an error of reading. */
	if (r == -ENOENT || r == -E2BIG || r == -EISDIR || r == -ENOTDIR)
		return error_set(err, -EBADMSG, "incomplete block: %s", cause.message);
	return r < 0 ? error_set(err, r, "%s", cause.message) : 0;
}

/* Finds the one bit that is wrong, by trying: true if it is right now. */
static bool correct_text(struct buffer *text)
{
	for (size_t bit = 0; text->len <= CORRECTED_MAX && bit < text->len * 8; bit++) {
		text->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (checksum_matches(buffer_bytes(text)))
			return true;
		text->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	return false;
}

static int read_meta(const char *directory, bool correct, struct buffer *text, struct block_meta *ret, bool *ret_corrected,
		     struct error *err)
{
	char path[PATH_MAX];
	*ret = (struct block_meta){0};
	*ret_corrected = false;
	int r = read_text(directory, path, text, err);
	if (r < 0)
		return r;
	/* Before it is parsed: the version may be what is wrong. */
	if (correct && !checksum_matches(buffer_bytes(text)))
		*ret_corrected = correct_text(text);
	r = parse_meta(path, buffer_bytes(text), ret, err);
	if (r < 0)
		block_meta_release(ret);
	return r;
}

int block_meta_read(const char *directory, struct block_meta *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = BLOCK_META_MAX};
	bool corrected;
	return read_meta(directory, false, &text, ret, &corrected, err);
}

int block_meta_read_corrected(const char *directory, struct block_meta *ret, bool *ret_corrected, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = BLOCK_META_MAX};
	return read_meta(directory, true, &text, ret, ret_corrected, err);
}

int block_meta_heal(const char *directory, struct error *err)
{
	char path[PATH_MAX], fresh[PATH_MAX];
	_cleanup_(buffer_release) struct buffer text = {.max = BLOCK_META_MAX};
	struct block_meta meta;
	bool corrected;
	int r = read_meta(directory, true, &text, &meta, &corrected, err);
	if (r < 0)
		return r;
	block_meta_release(&meta);
	if (!corrected)
		return 0;
	if (io_join_path(path, sizeof(path), directory, "meta.json") < 0 ||
	    io_join_path(fresh, sizeof(fresh), directory, "meta.json.tmp") < 0)
		return error_set_errno(err, -ENAMETOOLONG, "%s", directory);
	io_unlink(fresh, NULL);
	r = io_write_file(fresh, text.data, text.len, 0640, err);
	if (r == 0)
		r = io_rename(fresh, path, err);
	return r == 0 ? io_sync_dir(directory, err) : r;
}

/* ---- writing ---- */

static void put_hash(struct json_writer *json, const char *key, uint64_t hash)
{
	char text[17];
	snprintf(text, sizeof(text), "%016" PRIx64, hash);
	json_member_cstring(json, key, text);
}

static void put_use(struct json_writer *json, const struct block_use *use)
{
	json_member_uint(json, "series", use->series);
	json_member_uint(json, "samples", use->samples);
	json_member_int(json, "first_ns", use->first_ns);
	json_member_int(json, "last_ns", use->last_ns);
}

static void put_types(struct json_writer *json, const struct block_meta *meta)
{
	json_member_bool(json, "types_complete", meta->types_complete);
	json_member_array(json, "types");
	for (size_t i = 0; i < meta->type_count; i++) {
		const struct block_type *type = &meta->types[i];
		json_begin_object(json);
		json_member_cstring(json, "name", type->type.name);
		json_member_cstring(json, "sample_type", type->type.sample_type);
		json_member_cstring(json, "sample_unit", type->type.sample_unit);
		json_member_cstring(json, "period_type", type->type.period_type);
		json_member_cstring(json, "period_unit", type->type.period_unit);
		json_member_bool(json, "delta", type->type.delta);
		put_use(json, &type->use);
		json_end_object(json);
	}
	json_end_array(json);
}

static void put_labels(struct json_writer *json, const struct block_meta *meta)
{
	json_member_bool(json, "labels_complete", meta->labels_complete);
	json_member_array(json, "labels");
	for (size_t i = 0; i < meta->label_count; i++) {
		const struct block_label_name *label = &meta->labels[i];
		json_begin_object(json);
		json_member_cstring(json, "name", label->name);
		json_member_uint(json, "values", label->values);
		put_use(json, &label->use);
		json_member_bool(json, "in_rollups", label->in_rollups);
		json_end_object(json);
	}
	json_end_array(json);
}

static void put_files(struct json_writer *json, const struct block_meta *meta)
{
	json_member_array(json, "files");
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++) {
		if (meta->files[i].size == 0)
			continue;
		json_begin_object(json);
		json_member_cstring(json, "name", block_file_names[i]);
		json_member_uint(json, "bytes", meta->files[i].size);
		json_member_uint(json, "rows", meta->files[i].rows);
		put_hash(json, "footer_xxh3", meta->files[i].footer_hash);
		json_end_object(json);
	}
	json_end_array(json);
}

static void put_lost(struct json_writer *json, const struct block_losses *lost)
{
	if (!lost->rows && !lost->names)
		return;
	json_member_object(json, "lost");
	if (lost->names)
		json_member_uint(json, "names", lost->names);
	json_member_uint(json, "rows", lost->rows);
	json_member_int(json, "from_ns", lost->from_ns);
	json_member_int(json, "to_ns", lost->to_ns);
	json_end_object(json);
}

static void put_meta(struct json_writer *json, const struct block_meta *meta)
{
	json_begin_object(json);
	json_member_cstring(json, "format", "wick block");
	json_member_int(json, "version", BLOCK_VERSION);
	json_member_cstring(json, "name", meta->name);
	json_member_int(json, "level", meta->level);
	json_member_int(json, "generation", meta->generation);
	json_member_int(json, "created_ns", meta->created_ns);
	json_member_int(json, "min_ns", meta->min_ns);
	json_member_int(json, "max_ns", meta->max_ns);
	json_member_int(json, "mean_ns", meta->mean_ns);
	json_member_int(json, "partition_ns", meta->partition_ns);
	json_member_uint(json, "last_sequence", meta->last_sequence);
	json_member_uint(json, "samples", meta->samples);
	json_member_uint(json, "series", meta->series);
	json_member_uint(json, "rollup_series", meta->rollup_series);
	json_member_bool(json, "counts_profiles", meta->counts_profiles);
	put_lost(json, &meta->lost);
	put_types(json, meta);
	put_labels(json, meta);
	json_member_array(json, "replaces");
	for (size_t i = 0; i < meta->replace_count; i++)
		json_cstring(json, meta->replaces[i]);
	json_end_array(json);
	put_files(json, meta);
	json_end_object(json);
}

int block_meta_write(const char *directory, const struct block_meta *meta, struct error *err)
{
	char path[PATH_MAX];
	_cleanup_(buffer_release) struct buffer text = {.max = BLOCK_META_MAX};
	struct json_writer json = {.out = &text};
	put_meta(&json, meta);
	int r = json_finish(&json, err);
	if (r < 0)
		return r;
	text.len--; /* the closing brace */
	r = buffer_printf(&text, CHECKSUM_KEY "%016" PRIx64 "\"}\n", hash64(text.data, text.len));
	if (r < 0)
		return error_nomem(err);
	r = io_join_path(path, sizeof(path), directory, "meta.json");
	return r < 0 ? error_set_errno(err, r, "%s", directory) : io_write_file(path, text.data, text.len, 0640, err);
}
