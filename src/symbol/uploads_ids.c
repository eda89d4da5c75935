/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By what an uploaded file is found besides the id that it was announced with: the ids that it carries (elf/file_ids.h). Parca
 * Agent announces libc by a hash, as it reads the first segment of notes only, and other agents know the same file by its
 * build-id; a program that was sent for its build-id is what OpenTelemetry's profiler knows by its hash.
 *
 * In memory there is an index of them beside that of the files. In the directory each of them is a symbolic link in the place
 * that a file of that id would have, to the file:
 *
 *   TENANT/gnu/xx/yyyy/CONTENT.debuginfo -> ../../../hash/zz/wwww/CONTENT.debuginfo
 *
 * so that nothing has to be read at start. Links are made before the file comes into its place, and removed behind it; one that
 * leads nowhere is removed at start.
 *
 * What was announced by an id goes before what carries it: who announces says what the file is for. A file that carries an id
 * never stands in the way of one that is announced by it.
 *
 * Rejected: hard links (counted twice by whoever adds sizes up, and by older servers), and reading all notes at start.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/text.h"
#include "symbol/uploads_int.h"

#define TARGET_UP    "../../../" /* from yyyy to TENANT */
#define TARGET_BYTES 512

static struct upload_alias **bucket_of(struct uploads *uploads, const char *id, enum upload_kind kind)
{
	return &uploads->alias_buckets[hash64_seed(id, strlen(id), kind) % UPLOADS_BUCKETS];
}

/* ---- the index ---- */

/* Of a file that carries the id. */
static const struct upload_alias *alias_of(const struct upload_file *file, const char *id)
{
	const struct upload_alias *alias = file->aliases;
	while (alias && strcmp(alias->id, id) != 0)
		alias = alias->next_of_file;
	return alias;
}

struct upload_file *uploads_alias_find(struct uploads *uploads, const char *build_id, enum upload_kind kind,
				       const struct upload_file *after)
{
	/* From where it is, not from the beginning: very many may carry the same id. */
	const struct upload_alias *alias = after ? alias_of(after, build_id) : NULL;
	alias = alias ? alias->next : after ? NULL : *bucket_of(uploads, build_id, kind);
	while (alias && (alias->file->kind != kind || strcmp(alias->id, build_id) != 0))
		alias = alias->next;
	return alias ? alias->file : NULL;
}

bool uploads_file_has_build_id(const struct upload_file *file, const char *id)
{
	if (strcmp(file->build_id, id) == 0)
		return file->id_type == FILE_ID_GNU;
	const struct upload_alias *alias = alias_of(file, id);
	return alias && alias->id_type == FILE_ID_GNU;
}

const char *uploads_scope_next(const struct uploads_scope *scope, size_t *at)
{
	if (!scope || scope->count == 0)
		return (*at)++ ? NULL : "";
	return *at < scope->count ? scope->tenants[(*at)++] : NULL;
}

static struct upload_file *find_of_tenant(struct uploads *uploads, const char *tenant, const char *build_id,
					  enum upload_kind kind)
{
	struct upload_file *file = uploads_file_find(uploads, tenant, build_id, kind);
	if (file)
		return file;
	while ((file = uploads_alias_find(uploads, build_id, kind, file)))
		if (strcmp(file->tenant, tenant) == 0)
			break;
	return file;
}

struct upload_file *uploads_find(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id,
				 enum upload_kind kind)
{
	struct upload_file *file = NULL;
	const char *tenant;
	size_t at = 0;
	if (kind >= UPLOAD_KINDS)
		return NULL;
	while (!file && (tenant = uploads_scope_next(scope, &at))) {
		file = find_of_tenant(uploads, tenant, build_id, kind);
		/* Names are taken from a program first. */
		if (!file && kind == UPLOAD_EXECUTABLE && find_of_tenant(uploads, tenant, build_id, UPLOAD_DEBUGINFO))
			break;
	}
	return file;
}

static void add_to_index(struct uploads *uploads, struct upload_alias *alias)
{
	struct upload_alias **bucket = bucket_of(uploads, alias->id, alias->file->kind);
	alias->next = *bucket;
	*bucket = alias;
}

void uploads_alias_add(struct uploads *uploads, struct upload_file *file)
{
	for (struct upload_alias *alias = file->aliases; alias; alias = alias->next_of_file)
		add_to_index(uploads, alias);
}

void uploads_alias_forget(struct uploads *uploads, struct upload_file *file)
{
	for (const struct upload_alias *alias = file->aliases; alias; alias = alias->next_of_file) {
		struct upload_alias **at = bucket_of(uploads, alias->id, file->kind);
		while (*at != alias)
			at = &(*at)->next;
		*at = alias->next;
	}
}

/* Positive: it is remembered, as the first of the file's; 0: it need not be. */
static int remember(struct upload_file *file, enum file_id_type type, const char *id, struct error *err)
{
	/* Whoever makes a file may choose its build-id, also one that is its hash. An id is there once only. */
	if (!build_id_is_valid(id) || strlen(id) < 4 || strcmp(id, file->build_id) == 0 || alias_of(file, id))
		return 0;
	struct upload_alias *alias = mem_zalloc(sizeof(*alias));
	if (!alias)
		return error_nomem(err);
	*alias = (struct upload_alias){.file = file, .id_type = (uint8_t)type, .next_of_file = file->aliases};
	snprintf(alias->id, sizeof(alias->id), "%s", id);
	file->aliases = alias;
	return 1;
}

int uploads_alias_set(struct upload_file *file, const struct file_ids *ids, struct error *err)
{
	int r = 0;
	for (unsigned type = 0; r >= 0 && type < FILE_ID_TYPES; type++)
		r = remember(file, type, ids->ids[type], err);
	return r < 0 ? r : 0;
}

int uploads_alias_take(struct uploads *uploads, struct upload_file *file, enum file_id_type type, const char *id,
		       struct error *err)
{
	int r = remember(file, type, id, err);
	if (r > 0)
		add_to_index(uploads, file->aliases);
	return r < 0 ? r : 0;
}

/* ---- the directory ---- */

/* Where the link lies, and what it says. */
static int format_link(const struct uploads *uploads, const struct upload_alias *alias, char path[static PATH_MAX],
		       char target[static TARGET_BYTES], struct error *err)
{
	struct upload_place place = uploads_file_place(alias->file);
	place.id_type = alias->id_type;
	place.build_id = alias->id;
	int r = uploads_place_path(uploads->options.directory, &place, path, err);
	if (r < 0)
		return r;
	const struct upload_file *file = alias->file;
	snprintf(target, TARGET_BYTES, TARGET_UP "%s/%.2s/%s/%s", file_id_type_names[file->id_type], file->build_id,
		 file->build_id + 2, strrchr(path, '/') + 1);
	return 0;
}

/* Is there a link at that path that says this? target NULL: any. */
static bool is_link(const char *path, const char *target)
{
	char now[TARGET_BYTES];
	ssize_t len = readlink(path, now, sizeof(now));
	return len >= 0 && (!target || ((size_t)len == strlen(target) && memcmp(now, target, (size_t)len) == 0));
}

static int make_link(const struct uploads *uploads, const char *path, const char *target, struct error *err)
{
	char folder[PATH_MAX];
	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
	int r = io_make_dirs(folder, 0750, err);
	if (r < 0)
		return r;
	if (is_link(path, NULL) && !is_link(path, target))
		io_unlink(path, NULL);
	/* What is there was announced by this id, and has the same contents. */
	if (symlink(target, path) < 0 && errno != EEXIST)
		return error_set_errno(err, -errno, "cannot create %s", path);
	return uploads_sync_dirs(uploads->options.directory, folder, err);
}

int uploads_alias_link(const struct uploads *uploads, const struct upload_file *file, struct error *err)
{
	char path[PATH_MAX], target[TARGET_BYTES];
	int r = 0;
	for (const struct upload_alias *alias = file->aliases; alias && !r; alias = alias->next_of_file) {
		r = format_link(uploads, alias, path, target, err);
		if (!r)
			r = make_link(uploads, path, target, err);
	}
	return r;
}

void uploads_alias_unlink(const struct uploads *uploads, const struct upload_file *file)
{
	char path[PATH_MAX], target[TARGET_BYTES];
	for (const struct upload_alias *alias = file->aliases; alias; alias = alias->next_of_file) {
		if (format_link(uploads, alias, path, target, NULL) < 0)
			continue;
		/* It may be another file's by now, which has the same contents. */
		if (!is_link(path, target))
			continue;
		io_unlink(path, NULL);
		*strrchr(path, '/') = 0;
		rmdir(path); /* stays if there is something else */
	}
}

/* Puts back the links of one with the same contents that carries the id. */
static void restore_id(struct uploads *uploads, const struct upload_file *file, const char *id)
{
	struct upload_file *other = NULL;
	pthread_mutex_lock(&uploads->lock);
	while ((other = uploads_alias_find(uploads, id, file->kind, other)))
		if (other != file && strcmp(other->tenant, file->tenant) == 0 && strcmp(other->content, file->content) == 0 &&
		    strcmp(other->content_key, file->content_key) == 0)
			break;
	pthread_mutex_unlock(&uploads->lock);
	if (other) /* it stays as long as place_lock is held */
		uploads_alias_link(uploads, other, NULL);
}

void uploads_alias_restore(struct uploads *uploads, const struct upload_file *file)
{
	restore_id(uploads, file, file->build_id);
	for (const struct upload_alias *alias = file->aliases; alias; alias = alias->next_of_file)
		restore_id(uploads, file, alias->id);
}

bool uploads_alias_parse(const char *target, enum file_id_type *ret_type, char ret_id[static BUILD_ID_HEX_MAX])
{
	char type[8];
	int first = 0, rest = 0, end = 0;
	if (!text_starts_with(target, TARGET_UP))
		return false;
	target += strlen(TARGET_UP);
	if (sscanf(target, "%7[a-z]/%n%*2[0-9a-f]/%n%*126[0-9a-f]%n", type, &first, &rest, &end) != 1 || !end ||
	    target[end] != '/' || !file_id_type_parse(type, ret_type))
		return false;
	snprintf(ret_id, BUILD_ID_HEX_MAX, "%.2s%.*s", target + first, end - rest, target + rest);
	return build_id_is_valid(ret_id);
}
