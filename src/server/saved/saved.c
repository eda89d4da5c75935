/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A saved query is a file NAME.yaml:
 *
 *   title: What became slower
 *   description: Functions of a service against the same time before.
 *   range: 1h
 *   parameters:
 *     service: {type: value, label: service_name, title: Service}
 *     n: {type: number, default: 20}
 *   query: |
 *     process_cpu{service_name=$service} | diff (shift $range) relative | top $n total
 *
 * `$range`, the length of the range of the request, is always there. JSON is YAML, so the API takes either.
 *
 * They are in three places: built in (library/), in a directory that the configuration names and people keep under version
 * control, and, a file each, where the API puts them. Nothing is kept in memory: a file is read when it is asked for, so what
 * is edited counts at once, and a file that is wrong says so to whoever asks for it and harms nobody else. A file has some
 * hundred bytes; reading one costs less than parsing the query in it.
 *
 * A file is checked as a whole when it is read: the query must be one with any values of its parameters. It is tried with their
 * fallbacks, and with a value of the type where there is none.
 */
#include "server/saved/saved.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/intern.h"
#include "base/io.h"
#include "base/order.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/yaml_fields.h"
#include "query/parameters.h"
#include "query/pipeline.h"
#include "server/saved/library.h"

#define EXTENSION    ".yaml"
#define MANUAL	     "docs/saved-queries.md"
#define TEXT_MAX     (16 * 1024) /* of the query itself */
#define CHOICES_MAX  100
#define RANGE	     "range"
#define RANGE_NS_TRY (3600 * NS_PER_S)

/* ---- reading one ---- */

static const char *const type_names[] = {[SAVED_TEXT] = "text",		[SAVED_VALUE] = "value", [SAVED_NUMBER] = "number",
					 [SAVED_DURATION] = "duration", [SAVED_LABEL] = "label", [SAVED_CHOICE] = "choice"};
static const enum parameter_kind kinds[] = {
	[SAVED_TEXT] = PARAMETER_TEXT,	       [SAVED_VALUE] = PARAMETER_TEXT,	[SAVED_NUMBER] = PARAMETER_NUMBER,
	[SAVED_DURATION] = PARAMETER_DURATION, [SAVED_LABEL] = PARAMETER_LABEL, [SAVED_CHOICE] = PARAMETER_TEXT};

const char *saved_type_name(enum saved_type type)
{
	return type_names[type];
}

static int read_type(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct saved_parameter *parameter = object;
	const char *text = yaml_scalar(node);
	int type = text ? text_find_name(type_names, sizeof(type_names) / sizeof(*type_names), text) : -1;
	if (type < 0)
		return yaml_fault(reader, node, "type", "must be one of text, value, number, duration, label, choice");
	parameter->type = (enum saved_type)type;
	return 0;
}

static int read_choices(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct saved_parameter *parameter = object;
	return yaml_read_texts(reader, node, "choices", CHOICES_MAX, &parameter->choices, &parameter->choice_count);
}

static const struct yaml_field parameter_fields[] = {
	YAML_CUSTOM("type", read_type),
	YAML_FIELD(struct saved_parameter, "title", EMPTY_TEXT, title),
	YAML_FIELD(struct saved_parameter, "label", TEXT, label),
	YAML_FIELD(struct saved_parameter, "default", EMPTY_TEXT, fallback),
	YAML_CUSTOM("choices", read_choices),
	{0},
};

static bool is_choice(const struct saved_parameter *parameter, const char *value)
{
	for (size_t i = 0; i < parameter->choice_count; i++)
		if (strcmp(parameter->choices[i], value) == 0)
			return true;
	return false;
}

static int check_parameter(struct yaml_reader *reader, const yaml_node_t *node, const struct saved_parameter *parameter)
{
	if ((parameter->type == SAVED_VALUE) != (parameter->label != NULL))
		return yaml_fault(reader, node, parameter->name,
				  parameter->label ? "has a label, which is for the type value"
						   : "needs a label, whose value it is");
	if ((parameter->type == SAVED_CHOICE) != (parameter->choice_count > 0))
		return yaml_fault(reader, node, parameter->name,
				  parameter->choice_count ? "has choices, which are for the type choice" : "needs choices");
	if (parameter->type == SAVED_CHOICE && parameter->fallback && !is_choice(parameter, parameter->fallback))
		return yaml_fault(reader, node, parameter->name, "has a default that is none of its choices");
	return 0;
}

static int read_parameter(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object)
{
	struct saved_query *query = object;
	if (!parameter_name_is_valid(name) || strcmp(name, RANGE) == 0)
		return yaml_fault(reader, node, name,
				  strcmp(name, RANGE) == 0 ? "is always there, as the length of the range: use another name"
							   : "is no name of a parameter: small letters, digits and _");
	if (query->parameter_count == SAVED_PARAMETERS_MAX)
		return yaml_fault(reader, node, "parameters", "has more than 16 entries");
	for (size_t i = 0; i < query->parameter_count; i++)
		if (strcmp(query->parameters[i].name, name) == 0)
			return yaml_fault(reader, node, name, "is there twice");
	struct saved_parameter *parameter = &query->parameters[query->parameter_count++];
	*parameter = (struct saved_parameter){.name = name, .title = ""};
	int r = yaml_read_fields(reader, node, parameter_fields, parameter);
	return r < 0 ? r : check_parameter(reader, node, parameter);
}

static int read_range(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct saved_query *query = object;
	int64_t ns;
	const char *text = yaml_scalar(node);
	if (!text || time_parse_duration(text, &ns, NULL) < 0 || ns <= 0)
		return yaml_fault(reader, node, "range", "must be a duration such as 1h");
	return yaml_read_text(reader, node, "range", &query->range);
}

static const struct yaml_field query_fields[] = {
	YAML_FIELD(struct saved_query, "title", TEXT, title),
	YAML_FIELD(struct saved_query, "description", EMPTY_TEXT, description),
	YAML_CUSTOM("range", read_range),
	{"parameters", YAML_FIELD_NAMES, .read_name = read_parameter},
	YAML_FIELD(struct saved_query, "query", TEXT, text),
	{0},
};

/* A value of the type, for a trial. */
static const char *trial_value(void *context, const char *name)
{
	static const char *const values[] = {
		[SAVED_TEXT] = "x", [SAVED_VALUE] = "x", [SAVED_NUMBER] = "1", [SAVED_DURATION] = "1m", [SAVED_LABEL] = "x"};
	const struct saved_query *query = context;
	for (size_t i = 0; i < query->parameter_count; i++) {
		const struct saved_parameter *parameter = &query->parameters[i];
		if (strcmp(parameter->name, name) == 0)
			return parameter->type == SAVED_CHOICE ? parameter->choices[0] : values[parameter->type];
	}
	return NULL;
}

static bool is_used(const struct saved_query *query, const char *name)
{
	char found[PARAMETER_NAME_MAX + 1];
	size_t at = 0;
	while (query_next_parameter(query->text, &at, found))
		if (strcmp(found, name) == 0)
			return true;
	return false;
}

static int check_with(const struct saved_query *query, saved_value_function value, const char *file, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = SAVED_BYTES_MAX};
	_cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
	struct error why = {0};
	int r = saved_query_expand(query, value, (void *)query, RANGE_NS_TRY, &text, &why);
	const char *expanded = r < 0 ? NULL : buffer_string(&text);
	if (!r && !expanded)
		return error_nomem(err);
	if (!r)
		r = pipeline_parse(expanded, &pipeline, &why);
	return r < 0 ? error_set(err, r, "%s: %s", file, why.message) : 0;
}

/* The same where there is no fallback, and the fallback elsewhere. */
static const char *needed_value(void *context, const char *name)
{
	const struct saved_query *query = context;
	for (size_t i = 0; i < query->parameter_count; i++)
		if (strcmp(query->parameters[i].name, name) == 0 && query->parameters[i].fallback)
			return NULL;
	return trial_value(context, name);
}

static int check_query(const struct saved_query *query, const char *file, struct error *err)
{
	if (!query->text || !query->title)
		return error_set(err, -EINVAL, "%s: %s is missing", file, query->text ? "title" : "query");
	if (strlen(query->text) > TEXT_MAX)
		return error_set(err, -EINVAL, "%s: the query is longer than %d KiB", file, TEXT_MAX / 1024);
	for (size_t i = 0; i < query->parameter_count; i++) {
		const struct saved_parameter *parameter = &query->parameters[i];
		if (!is_used(query, parameter->name))
			return error_set(err, -EINVAL, "%s: the query does not use its parameter '%s'", file, parameter->name);
	}
	int r = check_with(query, trial_value, file, err);
	/* Fallbacks may be what does not fit. */
	return r < 0 ? r : check_with(query, needed_value, file, err);
}

int saved_query_read(struct bytes text, const char *file, struct saved_query **ret, struct error *err)
{
	if (text.len > SAVED_BYTES_MAX)
		return error_set(err, -EINVAL, "%s: is larger than %d KiB", file, SAVED_BYTES_MAX / 1024);
	_cleanup_(saved_query_freep) struct saved_query *query = mem_zalloc(sizeof(*query));
	if (!query)
		return error_nomem(err);
	arena_init(&query->arena, 4 * SAVED_BYTES_MAX);
	query->description = "";
	yaml_document_t document;
	int r = yaml_load(text, file, -EINVAL, &document, err);
	if (r < 0)
		return r;
	struct yaml_reader reader = {
		.document = &document, .file = file, .arena = &query->arena, .err = err, .manual = MANUAL, .suggests = true};
	const yaml_node_t *root = yaml_document_get_root_node(&document);
	r = root ? yaml_read_fields(&reader, root, query_fields, query) : error_set(err, -EINVAL, "%s: is empty", file);
	yaml_document_delete(&document);
	if (!r)
		r = check_query(query, file, err);
	if (r < 0)
		return r;
	*ret = query;
	query = NULL;
	return 0;
}

struct saved_query *saved_query_free(struct saved_query *query)
{
	if (query)
		arena_release(&query->arena);
	return mem_free(query);
}

/* ---- values ---- */

static int check_value(const struct saved_parameter *parameter, const char *value, struct error *err)
{
	if (!value)
		return error_set(err, -EINVAL, "parameter '%s' is missing: it is of the type %s", parameter->name,
				 saved_type_name(parameter->type));
	if (parameter->type == SAVED_CHOICE && !is_choice(parameter, value))
		return error_set(err, -EINVAL, "parameter '%s': '%.60s' is none of its choices", parameter->name, value);
	if (strlen(value) > TEXT_MAX)
		return error_set(err, -EINVAL, "parameter '%s' is longer than %d KiB", parameter->name, TEXT_MAX / 1024);
	return 0;
}

/* The length of a range in words of the language; the text is the buffer's. */
static const char *range_text(int64_t range_ns, char out[static TIME_TEXT_MAX])
{
	bool seconds = range_ns % NS_PER_S == 0;
	snprintf(out, TIME_TEXT_MAX, "%lld%s", (long long)(range_ns / (seconds ? NS_PER_S : NS_PER_MS)), seconds ? "s" : "ms");
	return out;
}

int saved_query_expand(const struct saved_query *query, saved_value_function value, void *context, int64_t range_ns,
		       struct buffer *out, struct error *err)
{
	struct query_parameter parameters[SAVED_PARAMETERS_MAX + 1];
	char range[TIME_TEXT_MAX];
	for (size_t i = 0; i < query->parameter_count; i++) {
		const struct saved_parameter *parameter = &query->parameters[i];
		const char *given = value(context, parameter->name);
		given = given && *given ? given : parameter->fallback;
		int r = check_value(parameter, given, err);
		if (r < 0)
			return r;
		parameters[i] = (struct query_parameter){parameter->name, kinds[parameter->type], given};
	}
	parameters[query->parameter_count] = (struct query_parameter){RANGE, PARAMETER_DURATION, range_text(range_ns, range)};
	return query_expand(query->text, parameters, query->parameter_count + 1, out, err);
}

int saved_expand_range(const char *text, int64_t range_ns, struct buffer *out, struct error *err)
{
	char range[TIME_TEXT_MAX];
	const struct query_parameter parameter = {RANGE, PARAMETER_DURATION, range_text(range_ns, range)};
	return query_expand(text, &parameter, 1, out, err);
}

/* ---- places ---- */

const char *saved_origin_name(enum saved_origin origin)
{
	static const char *const names[] = {[SAVED_BUILT_IN] = "built-in", [SAVED_OWN] = "saved", [SAVED_FILE] = "file"};
	return names[origin];
}

bool saved_name_is_valid(const char *name)
{
	size_t len = strlen(name);
	return len > 0 && len <= SAVED_NAME_MAX && *name != '-' && *name != '_' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

static int file_path(const char *directory, const char *name, char out[static PATH_MAX], struct error *err)
{
	char file[SAVED_NAME_MAX + sizeof(EXTENSION)];
	snprintf(file, sizeof(file), "%s" EXTENSION, name);
	return io_join_path(out, PATH_MAX, directory, file) < 0
		       ? error_set(err, -ENAMETOOLONG, "%s: the path is too long", file)
		       : 0;
}

/* 1 = it is there, and *ret has it. */
static int read_from(const char *directory, const char *name, struct buffer *ret, struct error *err)
{
	char path[PATH_MAX];
	int r = file_path(directory, name, path, err);
	if (r < 0)
		return r;
	r = io_read_file(path, SAVED_BYTES_MAX, ret, err);
	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

static const struct saved_library *find_built_in(const char *name)
{
	for (const struct saved_library *one = saved_library; one->name; one++)
		if (strcmp(one->name, name) == 0)
			return one;
	return NULL;
}

int saved_find(const struct saved_places *places, const char *name, struct buffer *ret, enum saved_origin *ret_origin,
	       struct error *err)
{
	if (!saved_name_is_valid(name))
		return error_set(err, -EINVAL, "'%.60s' is no name of a saved query: small letters, digits, - and _", name);
	int r = places->directory ? read_from(places->directory, name, ret, err) : 0;
	*ret_origin = SAVED_FILE;
	if (r == 0) {
		*ret_origin = SAVED_OWN;
		r = read_from(places->own, name, ret, err);
	}
	const struct saved_library *built_in = r == 0 ? find_built_in(name) : NULL;
	if (r != 0)
		return r < 0 ? r : 0;
	if (!built_in)
		return error_set(err, -ENOENT, "there is no saved query '%s'", name);
	*ret_origin = SAVED_BUILT_IN;
	buffer_clear(ret);
	return buffer_append(ret, built_in->text, (size_t)(built_in->end - built_in->text)) < 0 ? error_nomem(err) : 0;
}

int saved_open(const struct saved_places *places, const char *name, enum saved_origin *ret_origin, struct saved_query **ret,
	       struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = SAVED_BYTES_MAX};
	char file[SAVED_NAME_MAX + sizeof(EXTENSION)];
	int r = saved_find(places, name, &text, ret_origin, err);
	if (r < 0)
		return r;
	snprintf(file, sizeof(file), "%s" EXTENSION, name);
	return saved_query_read(buffer_bytes(&text), file, ret, err);
}

static int add_name(struct intern *names, const char *name, size_t len, struct error *err)
{
	uint32_t id;
	return intern_add(names, name, len, &id) < 0 ? error_nomem(err) : 0;
}

/* Names of the files of a directory that are saved queries; one that is missing has none. names NULL: they are only counted. */
static int add_names(const char *directory, struct intern *names, size_t *ret_count, struct error *err)
{
	size_t count = 0;
	int r = 0;
	DIR *dir = opendir(directory);
	if (!dir)
		return errno == ENOENT ? 0 : error_set_errno(err, -errno, "cannot read %s", directory);
	for (const struct dirent *entry; r == 0 && count < SAVED_COUNT_MAX && (entry = readdir(dir));) {
		char name[SAVED_NAME_MAX + 1];
		size_t len = strlen(entry->d_name), extension = sizeof(EXTENSION) - 1;
		if (len <= extension || len - extension > SAVED_NAME_MAX || !text_ends_with(entry->d_name, EXTENSION))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(len - extension), entry->d_name);
		if (!saved_name_is_valid(name))
			continue;
		count++;
		if (names)
			r = add_name(names, name, len - extension, err);
	}
	closedir(dir);
	if (ret_count)
		*ret_count = count;
	return r;
}

DEFINE_ORDER(compare_names, char *const, strcmp(*a, *b));

int saved_list(const struct saved_places *places, int (*each)(void *context, const char *name), void *context,
	       struct error *err)
{
	_cleanup_(intern_release) struct intern names = {0};
	if (intern_init(&names, SIZE_MAX) < 0)
		return error_nomem(err);
	int r = 0;
	for (size_t i = 0; r == 0 && saved_library[i].name; i++)
		r = add_name(&names, saved_library[i].name, strlen(saved_library[i].name), err);
	if (r == 0)
		r = add_names(places->own, &names, NULL, err);
	if (r == 0 && places->directory)
		r = add_names(places->directory, &names, NULL, err);
	if (r < 0)
		return r;
	/* The first text of a set is "". */
	size_t count = names.count - 1;
	_cleanup_(mem_freep) const char **sorted = mem_alloc_array(count, sizeof(*sorted));
	if (!sorted)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++)
		sorted[i] = intern_string(&names, (uint32_t)(i + 1));
	sort_array(sorted, count, compare_names);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = each(context, sorted[i]);
	return r;
}

int saved_put(const struct saved_places *places, const char *name, struct bytes text, struct error *err)
{
	_cleanup_(buffer_release) struct buffer before = {0};
	_cleanup_(saved_query_freep) struct saved_query *query = NULL;
	char path[PATH_MAX];
	enum saved_origin origin = SAVED_BUILT_IN;
	size_t count = 0;
	int r = saved_find(places, name, &before, &origin, err);
	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0 && origin == SAVED_FILE)
		return error_set(err, -EEXIST, "'%s' is a file in %s: change it there", name, places->directory);
	r = saved_query_read(text, name, &query, err);
	if (!r)
		r = add_names(places->own, NULL, &count, err);
	if (!r && origin != SAVED_OWN && count >= SAVED_COUNT_MAX)
		r = error_set(err, -EDQUOT, "there are %d saved queries already", SAVED_COUNT_MAX);
	if (!r)
		r = io_make_dirs(places->own, 0750, err);
	if (!r)
		r = file_path(places->own, name, path, err);
	return r < 0 ? r : io_write_file(path, text.data, text.len, 0640, err);
}

int saved_remove(const struct saved_places *places, const char *name, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	char path[PATH_MAX];
	enum saved_origin origin;
	int r = saved_find(places, name, &text, &origin, err);
	if (r < 0)
		return r;
	if (origin != SAVED_OWN)
		return error_set(err, -EEXIST, "'%s' is %s: it cannot be removed here", name,
				 origin == SAVED_FILE ? "a file of the configured directory" : "built in");
	r = file_path(places->own, name, path, err);
	if (!r)
		r = io_unlink(path, err);
	return r < 0 ? r : io_sync_dir(places->own, err);
}
