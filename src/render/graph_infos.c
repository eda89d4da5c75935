/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of a call graph are, and what they are called. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "render/graph.h"

#define INFOS_MAX     (64u * 1024 * 1024)
#define BASE_NAME_MAX 256

/* ---- paths ---- */

struct bytes graph_trim_path(struct bytes path, const char *trim_path, const char *search_path)
{
	static const char *const known[] = {"/proc/self/cwd/./", "/proc/self/cwd/"};
	bool has_trim = trim_path && trim_path[0];
	/* Without better knowledge, what follows the base name of a directory to search in is relative to that directory. */
	for (const char *at = has_trim || !search_path ? "" : search_path; *at;) {
		char want[BASE_NAME_MAX + 3];
		size_t len = strcspn(at, ":"), base = len;
		while (base > 0 && at[base - 1] != '/')
			base--;
		if (len > base && len - base < BASE_NAME_MAX) {
			size_t size = (size_t)snprintf(want, sizeof(want), "/%.*s/", (int)(len - base), at + base);
			const uint8_t *found = path.len ? memmem(path.data, path.len, want, size) : NULL;
			if (found) {
				size_t skip = (size_t)(found - path.data) + size;
				return (struct bytes){path.data + skip, path.len - skip};
			}
		}
		at += len + (at[len] == ':');
	}
	for (const char *at = has_trim ? trim_path : ""; *at;) {
		size_t len = strcspn(at, ":"), bare = len > 0 && at[len - 1] == '/' ? len - 1 : len;
		if (path.len > bare && memcmp(path.data, at, bare) == 0 && path.data[bare] == '/')
			return (struct bytes){path.data + bare + 1, path.len - bare - 1};
		at += len + (at[len] == ':');
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		size_t len = strlen(known[i]);
		if (path.len >= len && memcmp(path.data, known[i], len) == 0)
			return (struct bytes){path.data + len, path.len - len};
	}
	return path;
}

/* Takes the last element off what was written since start; false if there is none that may go. */
static bool drop_element(struct buffer *out, size_t start, bool rooted)
{
	size_t floor = start + rooted, at = out->len;
	if (at == floor)
		return false;
	while (at > floor && out->data[at - 1] != '/')
		at--;
	if (out->len - at == 2 && memcmp(out->data + at, "..", 2) == 0)
		return false;
	buffer_truncate(out, at > floor ? at - 1 : at);
	return true;
}

int graph_append_clean_path(struct buffer *out, struct bytes path)
{
	if (path.len == 0)
		return 0;
	size_t start = out->len;
	bool rooted = path.data[0] == '/';
	if (rooted)
		buffer_append_byte(out, '/');
	for (size_t at = 0; at < path.len && buffer_status(out) == 0;) {
		const uint8_t *slash = memchr(path.data + at, '/', path.len - at);
		size_t end = slash ? (size_t)(slash - path.data) : path.len, len = end - at;
		bool up = len == 2 && memcmp(path.data + at, "..", 2) == 0;
		bool here = len == 0 || (len == 1 && path.data[at] == '.');
		if (!here && !(up && (drop_element(out, start, rooted) || rooted))) {
			if (out->len > start + rooted)
				buffer_append_byte(out, '/');
			buffer_append(out, path.data + at, len);
		}
		at = end + 1;
	}
	return out->len == start ? buffer_append_byte(out, '.') : buffer_status(out);
}

/* ---- infos ---- */

static int find_info(struct graph_infos *infos, const struct graph_info *info, uint32_t *ret, struct error *err)
{
	uint64_t hash = hash64_guarded(info, sizeof(*info));
	for (size_t at = index32_first(&infos->index, hash); index32_at(&infos->index, hash, &at, ret); at++)
		if (memcmp(&infos->items[*ret], info, sizeof(*info)) == 0)
			return 0;
	int r = array_reserve(&infos->items, &infos->capacity, infos->count + 1, INFOS_MAX);
	if (r == -E2BIG)
		return error_set(err, r, "more than %u different functions, lines or addresses", INFOS_MAX);
	if (r < 0 || index32_add(&infos->index, hash, (uint32_t)infos->count) < 0)
		return error_nomem(err);
	*ret = (uint32_t)infos->count++;
	infos->items[*ret] = *info;
	return 0;
}

static int add_string(struct graph_infos *infos, struct bytes text, uint32_t *ret)
{
	return intern_add(&infos->strings, text.data, text.len, ret);
}

struct info_work {
	struct graph_infos *infos;
	const struct profile *profile;
	const struct graph_detail *detail;
	uint32_t *files, *names; /* by string of the profile, plus 1; 0 = not yet */
	struct buffer path;
};

static int known_string(struct info_work *work, uint32_t *known, uint32_t string, bool is_path, uint32_t *ret)
{
	int r = 0;
	if (known[string] == 0) {
		struct bytes text = profile_string_bytes(work->profile, string);
		if (is_path) {
			buffer_clear(&work->path);
			text = graph_trim_path(text, work->detail->trim_path, work->detail->source_path);
			r = graph_append_clean_path(&work->path, text);
			text = buffer_bytes(&work->path);
		}
		if (r == 0)
			r = add_string(work->infos, text, &known[string]);
		if (r < 0)
			return r;
		known[string]++;
	}
	*ret = known[string] - 1;
	return 0;
}

static int line_info(struct info_work *work, const struct profile_location *location, const struct profile_line *line,
		     uint32_t *ret, struct error *err)
{
	const struct profile *profile = work->profile;
	const struct graph_detail *detail = work->detail;
	struct graph_info info;
	memset(&info, 0, sizeof(info)); /* padding too: infos are compared as bytes */
	info.address = detail->addresses ? location->address : 0;
	bool has_function = line && line->function;
	int r = 0;
	if (has_function) {
		const struct profile_function *function = &profile->functions[line->function];
		info.line = detail->lines ? line->line : 0;
		info.column = detail->lines && detail->columns ? line->column : 0;
		if (detail->functions)
			r = known_string(work, work->names, function->name, false, &info.name);
		if (r == 0 && detail->files)
			r = known_string(work, work->files, function->file_name, true, &info.file);
		if (detail->binaries || info.name == 0)
			info.start_line = function->start_line;
	}
	if (r == 0 && (!has_function || detail->binaries || info.name == 0))
		r = add_string(work->infos, profile_string_bytes(profile, profile->mappings[location->mapping].file_name),
			       &info.binary);
	if (r < 0)
		return r == -ENOMEM ? error_nomem(err) : error_set(err, r, "the names are too long");
	return find_info(work->infos, &info, ret, err);
}

static int location_infos(struct info_work *work, uint32_t id, size_t *count, size_t *capacity, struct error *err)
{
	const struct profile_location *location = &work->profile->locations[id];
	uint32_t skip = !work->detail->inlines && location->line_count > 1 ? location->line_count - 1 : 0;
	uint32_t lines = location->line_count - skip;
	if (array_reserve(&work->infos->nodes, capacity, *count + lines + 1, SIZE_MAX / 8) < 0)
		return error_nomem(err);
	if (lines == 0)
		return line_info(work, location, NULL, &work->infos->nodes[(*count)++], err);
	for (uint32_t i = 0; i < lines; i++) {
		struct profile_line line = work->profile->lines[location->line_first + skip + i];
		int r = line_info(work, location, &line, &work->infos->nodes[(*count)++], err);
		if (r < 0)
			return r;
	}
	return 0;
}

static void info_work_release(struct info_work *work)
{
	mem_free(work->files);
	mem_free(work->names);
	buffer_release(&work->path);
}

int graph_infos_build(struct graph_infos *infos, const struct profile *profile, const struct graph_detail *detail,
		      struct error *err)
{
	memset(infos, 0, sizeof(*infos));
	arena_init(&infos->arena, 4 * GIB);
	_cleanup_(info_work_release) struct info_work work = {
		.infos = infos, .profile = profile, .detail = detail, .path.max = LIMIT_PROFILE_STRING_BYTES};
	work.files = mem_zalloc_array(profile->strings.count, sizeof(uint32_t));
	work.names = mem_zalloc_array(profile->strings.count, sizeof(uint32_t));
	infos->first = mem_zalloc_array(profile->location_count + 1, sizeof(uint32_t));
	if (!work.files || !work.names || !infos->first || intern_init(&infos->strings, 4 * GIB) < 0)
		return error_nomem(err);
	size_t count = 0, capacity = 0;
	for (uint32_t i = 1; i < profile->location_count; i++) {
		infos->first[i] = (uint32_t)count;
		int r = location_infos(&work, i, &count, &capacity, err);
		if (r < 0)
			return r;
	}
	infos->first[profile->location_count] = (uint32_t)count;
	infos->names = mem_zalloc_array(infos->count + 1, sizeof(*infos->names));
	return infos->names ? 0 : error_nomem(err);
}

void graph_infos_release(struct graph_infos *infos)
{
	intern_release(&infos->strings);
	mem_free(infos->items);
	mem_free(infos->names);
	mem_free(infos->first);
	mem_free(infos->nodes);
	index32_release(&infos->index);
	arena_release(&infos->arena);
	memset(infos, 0, sizeof(*infos));
}

const char *graph_infos_string(const struct graph_infos *infos, uint32_t id)
{
	return intern_string(&infos->strings, id);
}

static void append_part(struct buffer *out, struct bytes text)
{
	if (out->len)
		buffer_append_byte(out, ' ');
	text_append_harmless(out, text);
}

static void append_printable(const struct graph_infos *infos, const struct graph_info *info, struct buffer *out)
{
	if (info->address)
		buffer_printf(out, "%016llx", (unsigned long long)info->address);
	if (info->name)
		append_part(out, intern_get(&infos->strings, info->name));
	if (info->line || info->file) {
		append_part(out, intern_get(&infos->strings, info->file));
		if (info->line)
			buffer_printf(out, ":%lld", (long long)info->line);
		if (info->line && info->column)
			buffer_printf(out, ":%lld", (long long)info->column);
		return;
	}
	if (info->name)
		return;
	if (!info->binary) {
		append_part(out, bytes_of_string("<unknown>"));
		return;
	}
	const char *path = intern_string(&infos->strings, info->binary);
	append_part(out, bytes_of_string("["));
	text_append_harmless(out, text_base_name_of(bytes_of_string(path)));
	buffer_append_byte(out, ']');
}

const char *graph_printable_name(struct graph_infos *infos, uint32_t info)
{
	if (infos->names[info])
		return infos->names[info];
	_cleanup_(buffer_release) struct buffer text = {.max = GIB};
	append_printable(infos, &infos->items[info], &text);
	if (buffer_status(&text) < 0)
		return NULL;
	return infos->names[info] = arena_strndup(&infos->arena, (const char *)text.data, text.len);
}

/* ---- short names ---- */

static bool is_word(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t word_length(const char *at, size_t len, const char *more)
{
	size_t n = 0;
	while (n < len && (is_word(at[n]) || (more && at[n] && strchr(more, at[n]))))
		n++;
	return n;
}

/* Where "/vN" stands, N from 2 on, with "." or "/" behind it: a module's version in a Go import path. */
static bool find_version(const char *name, size_t len, size_t *ret_at, size_t *ret_len)
{
	for (size_t i = 0; i + 3 < len; i++) {
		if (name[i] != '/' || name[i + 1] != 'v')
			continue;
		size_t digits = 0;
		while (i + 2 + digits < len && name[i + 2 + digits] >= '0' && name[i + 2 + digits] <= '9')
			digits++;
		char first = name[i + 2];
		size_t end = i + 2 + digits;
		if (digits == 0 || first == '0' || (digits == 1 && first == '1') || end >= len)
			continue;
		if (name[end] == '.' || name[end] == '/') {
			*ret_at = i;
			*ret_len = 2 + digits;
			return true;
		}
	}
	return false;
}

/* example.com/a/b.Function: from "b" on. */
static size_t go_start(const char *name, size_t len)
{
	size_t end = word_length(name, len, "-./"), best = 0;
	for (size_t i = 1; i < end; i++) {
		if (name[i] != '/' || name[i - 1] == '/')
			continue;
		const char *dot = memchr(name + i + 1, '.', len - i - 1);
		if (dot && dot > name + i + 1 && dot + 1 < name + len)
			best = i + 1;
		if (i + 1 < len && name[i + 1] == '/')
			break; /* an empty element ends the import path */
	}
	return name[0] == '/' ? 0 : best;
}

/* java.util.Map.get(...): "Map.get". */
static bool find_java(const char *name, size_t len, size_t *ret_start, size_t *ret_len)
{
	size_t at = 0;
	while (at < len && name[at] >= 'a' && name[at] <= 'z') {
		size_t word = word_length(name + at, len - at, NULL);
		if (at + word >= len || name[at + word] != '.')
			return false;
		at += word + 1;
	}
	if (at >= len || name[at] < 'A' || name[at] > 'Z')
		return false;
	size_t dot = at + word_length(name + at, len - at, "$"), end;
	if (dot >= len || name[dot] != '.')
		return false;
	if (len - dot - 1 >= 6 && memcmp(name + dot + 1, "<init>", 6) == 0)
		end = dot + 7;
	else if (dot + 1 < len && name[dot + 1] >= 'a' && name[dot + 1] <= 'z')
		end = dot + 1 + word_length(name + dot + 1, len - dot - 1, "$");
	else
		return false;
	*ret_start = at;
	*ret_len = end - at;
	return end == len || name[end] == '(';
}

/* A class's name: begins with a capital, after any '_'. */
static bool is_class(const char *word, size_t len)
{
	size_t at = 0;
	while (at < len && word[at] == '_')
		at++;
	return at < len && word[at] >= 'A' && word[at] <= 'Z';
}

#define CPP_PARTS_MAX 64
/* a::b::Class::method<T>: "Class::method<T>", of the last class that has a namespace around it. */
static bool find_cpp(const char *name, size_t len, size_t *ret_start, size_t *ret_len)
{
	size_t starts[CPP_PARTS_MAX], count = 0, at = 0, end;
	for (;;) {
		size_t word = word_length(name + at, len - at, NULL);
		bool is_name = word > 0 && !(name[at] >= '0' && name[at] <= '9');
		if (!is_name || count == CPP_PARTS_MAX || len - at - word < 2 || memcmp(name + at + word, "::", 2) != 0)
			break;
		starts[count++] = at;
		at += word + 2;
	}
	for (size_t i = count; i-- > 1;) {
		size_t method = i + 1 < count ? starts[i + 1] : at;
		size_t tilde = method < len && name[method] == '~', word;
		if (!is_class(name + starts[i], method - 2 - starts[i]))
			continue;
		word = word_length(name + method + tilde, len - method - tilde, NULL);
		if (word == 0 || (name[method + tilde] >= '0' && name[method + tilde] <= '9'))
			continue;
		end = method + tilde + word;
		if (end < len && name[end] == '<') {
			const char *last = memrchr(name + end, '>', len - end);
			end = last ? (size_t)(last - name) + 1 : end;
		}
		*ret_start = starts[i];
		*ret_len = end - starts[i];
		return true;
	}
	return false;
}

int graph_append_short_name(struct buffer *out, struct bytes text)
{
	static const char anonymous[] = "(anonymous namespace)::";
	const char *name = (const char *)text.data;
	size_t len = text.len, at, skip, start;
	if (len >= sizeof(anonymous) - 1 && memcmp(name, anonymous, sizeof(anonymous) - 1) == 0) {
		name += sizeof(anonymous) - 1;
		len -= sizeof(anonymous) - 1;
	}
	_cleanup_(buffer_release) struct buffer plain = {.max = GIB};
	if (len && find_version(name, len, &at, &skip)) {
		buffer_append(&plain, name, at);
		if (buffer_append(&plain, name + at + skip, len - at - skip) < 0)
			return buffer_status(&plain);
		name = (const char *)plain.data;
		len = plain.len;
	}
	if (len && (start = go_start(name, len)) > 0)
		return buffer_append(out, name + start, len - start);
	if (len && (find_java(name, len, &start, &skip) || find_cpp(name, len, &start, &skip)))
		return buffer_append(out, name + start, skip);
	return buffer_append(out, name, len);
}
