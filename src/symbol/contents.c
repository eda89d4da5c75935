/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several binaries of one id: build systems that give each build the same one, tools that rewrite a file and keep it, copies
 * that were stripped. Agents tell of the contents of their binaries (elf/content_key.h). A profile that comes straight from an
 * agent says of each mapping which content it has (profile.h), and then its code is named by that file alone. On the way to a
 * server, and in its store, that is not kept. So there code of such an id has a name if all of them that have one for it have
 * the same, and else none: a name that is a guess would be believed.
 *
 * What is compared: the uploads of the id that differ (two binaries may have the same debug information), and the binaries that
 * agents have told of and for which nothing was uploaded, if they can be had on this host. One that the server has asked for
 * is waited for, a few minutes; one that does not come, or has no symbols, has nothing to say if it is a copy of another that
 * was stripped. That is so if both have the same code, or if nobody has said what code they have. Of different programs, what
 * one does not name has no name, and if one of them is not here, nothing has. An upload that does not say of
 * what binary it is stands for the only one that there is.
 *
 * What agents have told of ids that have several is kept in DIRECTORY/contents, a line for each ("ID CONTENT PATH", and then
 * "ID CONTENT=CODE", which older servers pass over; appended; what makes no sense is passed over), as a server that is started
 * anew would name them all by one until agents ask again.
 *
 * Rejected: the content in the identity of a stack (profile/hash.c), so that each frame would be named by its own binary. All
 * stacks of agents that send it would be others than those of before and than those that other clients send, and the stacks of
 * a program and of its stripped copy would fall apart, for the sake of what is rare.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/io.h"
#include "base/time.h"
#include "symbol/symbol_int.h"

#define WAIT_NS		(300 * NS_PER_S) /* for what was asked for */
#define SAVED_BYTES_MAX MIB

/* ---- what agents tell ---- */

static struct symbol_content *find_content(const struct symbol_entry *entry, const char *content)
{
	for (size_t i = 0; i < entry->content_count; i++) {
		if (strcmp(entry->contents[i].key, content) == 0)
			return &entry->contents[i];
	}
	return NULL;
}

struct symbol_content *contents_note(struct symbolizer *s, struct symbol_entry *entry, const char *content, const char *path)
{
	struct symbol_content *found = find_content(entry, content);
	if (found)
		return found;
	if (entry->content_count == SYMBOL_BINARIES_MAX) {
		entry->contents_refused = true;
		s->stats.contents_refused++;
		return NULL;
	}
	/* Most ids have one. */
	size_t count = entry->content_count + 1u;
	struct symbol_content *contents = mem_realloc_array(entry->contents, count, sizeof(*contents));
	if (!contents)
		return NULL;
	entry->contents = contents;
	found = &contents[entry->content_count++];
	*found = (struct symbol_content){0};
	memcpy(found->key, content, sizeof(found->key));
	if (path && path[0] && strnlen(path, SYMBOL_PATH_MAX) < SYMBOL_PATH_MAX)
		entries_set_text(&found->path, path);
	entry->contents_unsaved = count > 1;
	return found;
}

/* With the lock held. */
static void note_code(struct symbol_entry *entry, const char *content, uint64_t code)
{
	struct symbol_content *found = entry ? find_content(entry, content) : NULL;
	if (!found || found->code == code)
		return;
	found->code = code;
	entry->contents_unsaved = entry->content_count > 1;
}

void symbolizer_note_code(struct symbolizer *s, const char *build_id, const char *content, uint64_t code)
{
	pthread_mutex_lock(&s->lock);
	note_code(entries_find(s, build_id), content, code);
	pthread_mutex_unlock(&s->lock);
	contents_save(s, build_id);
}

void contents_free(struct symbol_entry *entry)
{
	for (size_t i = 0; i < entry->content_count; i++)
		mem_free(entry->contents[i].path);
	entry->contents = mem_free(entry->contents);
	entry->content_count = 0;
}

bool contents_key(struct symbolizer *s, const char *build_id, const char *content, char ret[static SYMBOL_KEY_MAX])
{
	char key[SYMBOL_KEY_MAX];
	jobs_content_key(build_id, content, key);
	pthread_mutex_lock(&s->lock);
	const struct symbol_entry *entry = entries_find(s, build_id);
	bool is_told = entry && entry->content_count > 1 && find_content(entry, content);
	bool is_main = is_told && strcmp(entry->main_content, content) == 0;
	if (is_told && !is_main)
		memcpy(ret, key, SYMBOL_KEY_MAX);
	pthread_mutex_unlock(&s->lock);
	return is_told;
}

enum symbol_contents symbolizer_note_content(struct symbolizer *s, const char *build_id, const char *content, const char *path)
{
	enum symbol_contents contents = SYMBOL_CONTENT_ONLY;
	if (!build_id_is_valid(build_id) || !content_key_is_valid(content))
		return contents;
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = entries_get(s, build_id, path);
	if (entry && !contents_note(s, entry, content, path))
		contents = SYMBOL_CONTENT_TOO_MANY;
	else if (entry && entry->content_count > 1)
		contents = SYMBOL_CONTENT_SEVERAL;
	pthread_mutex_unlock(&s->lock);
	contents_save(s, build_id);
	if (contents == SYMBOL_CONTENT_ONLY && s->uploads &&
	    uploads_has_other_content(s->uploads, &s->scope, build_id, UPLOAD_DEBUGINFO, content))
		contents = SYMBOL_CONTENT_SEVERAL;
	return contents;
}

/* ---- what is compared ---- */

struct told {
	char key[CONTENT_KEY_HEX], path[SYMBOL_PATH_MAX];
	uint64_t code;
	bool is_local, is_awaited;
};
struct all_told {
	struct told items[SYMBOL_BINARIES_MAX];
	size_t count;
	bool are_more, are_programs;
	uint64_t here[SYMBOL_BINARIES_MAX]; /* codes of those whose symbols are here */
	size_t here_count;
};

static void copy_told(struct symbolizer *s, const char *build_id, struct all_told *ret)
{
	char key[SYMBOL_KEY_MAX];
	int64_t now_ns = time_monotonic_ns();
	uint64_t code = 0;
	*ret = (struct all_told){0};
	pthread_mutex_lock(&s->lock);
	const struct symbol_entry *entry = entries_find(s, build_id);
	ret->are_more = entry && entry->contents_refused;
	for (size_t i = 0; entry && i < entry->content_count; i++) {
		const struct symbol_content *content = &entry->contents[i];
		struct told *told = &ret->items[ret->count++];
		memcpy(told->key, content->key, sizeof(told->key));
		told->code = content->code;
		/* Of some nobody has said it. */
		ret->are_programs |= code && told->code && told->code != code;
		code = code ? code : told->code;
		snprintf(told->path, sizeof(told->path), "%s", content->path ? content->path : "");
		jobs_content_key(build_id, content->key, key);
		told->is_local = entries_find(s, key) || (!s->no_host_files && source_is_host_path(told->path));
		told->is_awaited = content->wanted_ns && now_ns - content->wanted_ns < WAIT_NS;
	}
	pthread_mutex_unlock(&s->lock);
}

/* ---- on disk ---- */

static bool saved_path(const struct symbolizer *s, char out[static PATH_MAX])
{
	return s->cache_directory && io_join_path(out, PATH_MAX, s->cache_directory, "contents") == 0;
}

void contents_save(struct symbolizer *s, const char *build_id)
{
	char path[PATH_MAX];
	struct stat st;
	struct all_told told;
	_cleanup_(buffer_release) struct buffer text = {.max = SAVED_BYTES_MAX};
	_cleanup_(fd_closep) int fd = -1;
	if (!saved_path(s, path))
		return;
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = entries_find(s, build_id);
	bool is_unsaved = entry && entry->contents_unsaved;
	if (is_unsaved)
		entry->contents_unsaved = false;
	pthread_mutex_unlock(&s->lock);
	if (!is_unsaved)
		return;
	copy_told(s, build_id, &told);
	for (size_t i = 0; i < told.count; i++) {
		buffer_printf(&text, "%s %s %s\n", build_id, told.items[i].key,
			      strchr(told.items[i].path, '\n') ? "" : told.items[i].path);
		if (told.items[i].code)
			buffer_printf(&text, "%s %s=%" PRIx64 "\n", build_id, told.items[i].key, told.items[i].code);
	}
	fd = io_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0640, NULL);
	if (fd < 0 || buffer_status(&text) < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size + text.len > SAVED_BYTES_MAX)
		return;
	io_write(fd, text.data, text.len, path, NULL);
}

/* "CONTENT=CODE". */
static void load_code(struct symbolizer *s, const char *build_id, char *content)
{
	char *code = strchr(content, '='), *end;
	if (!code)
		return;
	*code++ = 0;
	uint64_t number = strtoull(code, &end, 16);
	struct symbol_entry *entry = number && !*end && build_id_is_valid(build_id) ? entries_find(s, build_id) : NULL;
	note_code(entry, content, number);
	if (entry)
		entry->contents_unsaved = false;
}

/* "ID CONTENT PATH" or "ID CONTENT=CODE". */
static void load_line(struct symbolizer *s, char *line)
{
	char *content = strchr(line, ' '), *path = content ? strchr(content + 1, ' ') : NULL;
	if (content && !path) {
		*content++ = 0;
		load_code(s, line, content);
	}
	if (!path)
		return;
	*content++ = *path++ = 0;
	if (!build_id_is_valid(line) || !content_key_is_valid(content))
		return;
	struct symbol_entry *entry = entries_get(s, line, path);
	if (entry && contents_note(s, entry, content, path))
		entry->contents_unsaved = false;
}

void contents_load(struct symbolizer *s)
{
	char path[PATH_MAX];
	_cleanup_(buffer_release) struct buffer text = {0};
	if (!saved_path(s, path) || io_read_file(path, SAVED_BYTES_MAX, &text, NULL) < 0 || text.len == 0)
		return;
	/* What was cut off at the end has no newline, and is left out. */
	for (size_t at = 0; at < text.len;) {
		char *line = (char *)text.data + at, *end = memchr(line, '\n', text.len - at);
		if (!end)
			return;
		*end = 0;
		at = (size_t)(end + 1 - (char *)text.data);
		load_line(s, line);
	}
}

/* ---- which ---- */

/* Drops those that uploads stand for, and all if there is but one. Returns how many different files are known. */
static size_t drop_covered(struct symbolizer *s, const char *build_id, size_t uploaded, struct all_told *told)
{
	size_t kept = 0;
	bool are_several = told->count > 1 ||
			   (told->count == 1 && s->uploads &&
			    uploads_has_other_content(s->uploads, &s->scope, build_id, UPLOAD_DEBUGINFO, told->items[0].key));
	for (size_t i = 0; are_several && i < told->count; i++) {
		if (s->uploads && uploads_has_content(s->uploads, &s->scope, build_id, UPLOAD_DEBUGINFO, told->items[i].key)) {
			told->here[told->here_count++] = told->items[i].code;
			continue;
		}
		if (kept != i)
			told->items[kept] = told->items[i];
		kept++;
	}
	told->count = kept;
	return uploaded + kept;
}

static int acquire_one(struct symbolizer *s, const char *build_id, const char *content, const char *path,
		       struct symbol_others *ret, bool *ret_pending, struct error *err)
{
	char key[SYMBOL_KEY_MAX];
	struct shared_table *shared = NULL;
	bool pending = false;
	jobs_content_key(build_id, content, key);
	int r = jobs_acquire(s, key, path, &shared, &pending, err);
	if (shared)
		ret->tables[ret->count++] = shared;
	if (pending)
		memcpy(ret->pending[ret->pending_count++], key, sizeof(key));
	*ret_pending |= pending;
	return r;
}

/* Some of those that are not here may not be a copy of one that is. */
static bool is_one_missing(const struct all_told *told)
{
	for (size_t i = 0; i < told->count; i++) {
		bool is_here = false;
		for (size_t k = 0; k < told->here_count; k++)
			is_here |= told->here[k] && told->here[k] == told->items[i].code;
		if (!is_here)
			return true;
	}
	return false;
}

static size_t list(struct symbolizer *s, const char *build_id, char (*uploads)[UPLOAD_CONTENT_HEX], size_t *ret_uploaded,
		   struct all_told *ret)
{
	*ret_uploaded = s->uploads && build_id[0]
				? uploads_list_contents(s->uploads, &s->scope, build_id, uploads, SYMBOL_CONTENTS_MAX)
				: 0;
	copy_told(s, build_id, ret);
	return drop_covered(s, build_id, *ret_uploaded, ret);
}

int others_acquire(struct symbolizer *s, const char *build_id, struct symbol_others *ret, struct error *err)
{
	BUDGET_EXEMPT_SCOPE(); /* what is here stays */
	char uploads[SYMBOL_CONTENTS_MAX][UPLOAD_CONTENT_HEX];
	struct all_told told;
	size_t uploaded, count = list(s, build_id, uploads, &uploaded, &told);
	bool is_pending = false;
	int r = 0;
	ret->count = ret->pending_count = 0;
	ret->contents = count > 1 || told.are_more ? count : 0;
	ret->is_hopeless = uploaded > SYMBOL_CONTENTS_MAX || told.are_more;
	ret->are_programs = false;
	if (!ret->contents || ret->is_hopeless)
		return 0;
	for (size_t i = 0; r == 0 && i < uploaded; i++)
		r = acquire_one(s, build_id, uploads[i], "", ret, &is_pending, err);
	for (size_t i = 0; r == 0 && i < told.count; i++) {
		size_t before = ret->count;
		if (told.items[i].is_local)
			r = acquire_one(s, build_id, told.items[i].key, told.items[i].path, ret, &is_pending, err);
		if (ret->count > before)
			told.here[told.here_count++] = told.items[i].code;
		is_pending |= ret->count == before && told.items[i].is_awaited;
	}
	ret->are_programs = told.are_programs;
	ret->is_hopeless |= told.are_programs && is_one_missing(&told);
	return r < 0 ? r : is_pending;
}

void others_release(struct symbolizer *s, struct symbol_others *others)
{
	BUDGET_EXEMPT_SCOPE(); /* what is here stays */
	for (size_t i = 0; i < others->count; i++)
		jobs_release(s, others->tables[i], 0, 0);
	others->count = others->pending_count = others->contents = 0;
	others->is_hopeless = others->are_programs = false;
}

int others_acquire_wait(struct symbolizer *s, const char *build_id, const struct symbolizer_want *want,
			struct symbol_others *ret, struct error *err)
{
	BUDGET_EXEMPT_SCOPE(); /* what is here stays */
	const char *keys[SYMBOL_CONTENTS_MAX + SYMBOL_BINARIES_MAX];
	int r = others_acquire(s, build_id, ret, err);
	if (r <= 0 || !want || !want->wait_ns || ret->pending_count == 0)
		return r;
	for (size_t i = 0; i < ret->pending_count; i++)
		keys[i] = ret->pending[i];
	jobs_wait(s, keys, ret->pending_count, want);
	others_release(s, ret);
	return others_acquire(s, build_id, ret, err);
}

size_t others_count(struct symbolizer *s, const char *build_id, bool *ret_hopeless)
{
	char uploads[SYMBOL_CONTENTS_MAX][UPLOAD_CONTENT_HEX];
	struct all_told told;
	size_t uploaded, count = list(s, build_id, uploads, &uploaded, &told);
	*ret_hopeless = uploaded > SYMBOL_CONTENTS_MAX || told.are_more;
	return count;
}

/* ---- comparing ---- */

static bool has_lines(const struct symbol_frame *frames)
{
	return frames[0].line || frames[0].file[0];
}

static bool have_same_lines(const struct symbol_frame *a, const struct symbol_frame *b, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (a[i].line != b[i].line || strcmp(a[i].name, b[i].name) != 0 || strcmp(a[i].file, b[i].file) != 0)
			return false;
	}
	return true;
}

size_t others_reduce(const struct symbol_others *others, const struct symbol_table *other, uint64_t address,
		     struct symbol_frame *frames, size_t count)
{
	struct symbol_frame found[SYMBOL_FRAMES_MAX];
	uint32_t range = symbol_table_find(other, address);
	size_t n = range == CODE_NONE ? 0 : symbol_table_frames(other, address, range, found, SYMBOL_FRAMES_MAX);
	if (n == 0 || count == 0)
		return others->are_programs ? 0 : count;
	if (strcmp(found[n - 1].name, frames[count - 1].name) != 0)
		return 0;
	if (!has_lines(found) || !has_lines(frames) || (n == count && have_same_lines(found, frames, n)))
		return count;
	/* The function is the same, where in it is not. */
	frames[0] = (struct symbol_frame){.name = frames[count - 1].name,
					  .file = "",
					  .start_file = "",
					  .function = frames[count - 1].function,
					  .language = frames[count - 1].language};
	return 1;
}
