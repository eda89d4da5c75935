/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has arrived, in the places that uploads_layout.c describes. The directory is the truth; in
 * memory there is an index of it, with the order of use, made anew at start.
 *
 * When a file was used is kept in its mtime, which is set whenever it is opened: atime is not written on most systems, or once
 * a day. So the order survives a restart, and anybody can see it with ls -lt.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/map.h"
#include "base/order.h"
#include "base/text.h"
#include "base/time.h"
#include "symbol/uploads_int.h"
#include "symbol/use_order.h"

static struct upload_file **bucket_of(struct uploads *uploads, const char *build_id, enum upload_kind kind)
{
	return &uploads->buckets[hash64_seed(build_id, strlen(build_id), kind) % UPLOADS_BUCKETS];
}

struct upload_place uploads_file_place(const struct upload_file *file)
{
	return (struct upload_place){.tenant = file->tenant,
				     .id_type = file->id_type,
				     .build_id = file->build_id,
				     .content = file->content,
				     .content_key = file->content_key,
				     .kind = file->kind};
}

int uploads_file_path(const struct uploads *uploads, const struct upload_file *file, char out[static PATH_MAX],
		      struct error *err)
{
	struct upload_place place = uploads_file_place(file);
	return uploads_place_path(uploads->options.directory, &place, out, err);
}

static bool is_of(const struct upload_file *file, const char *tenant, const char *build_id, enum upload_kind kind)
{
	return file->kind == kind && strcmp(file->build_id, build_id) == 0 && (!tenant || strcmp(file->tenant, tenant) == 0);
}

struct upload_file *uploads_file_find(struct uploads *uploads, const char *tenant, const char *build_id, enum upload_kind kind)
{
	struct upload_file *file = *bucket_of(uploads, build_id, kind);
	while (file && !is_of(file, tenant, build_id, kind))
		file = file->next;
	return file;
}

struct upload_file *uploads_file_find_content(struct uploads *uploads, const char *tenant, const char *build_id,
					      enum upload_kind kind, const char *content_key)
{
	struct upload_file *file = *bucket_of(uploads, build_id, kind);
	while (file && (!is_of(file, tenant, build_id, kind) || strcmp(file->content_key, content_key) != 0))
		file = file->next;
	return file;
}

struct upload_file *uploads_file_find_exact(struct uploads *uploads, const struct upload_place *place)
{
	struct upload_file *file = *bucket_of(uploads, place->build_id, place->kind);
	while (file && (!is_of(file, place->tenant, place->build_id, place->kind) || file->id_type != place->id_type ||
			strcmp(file->content, place->content) != 0 || strcmp(file->content_key, place->content_key) != 0))
		file = file->next;
	return file;
}

unsigned uploads_file_count_others(struct uploads *uploads, const struct upload_begin *begin)
{
	unsigned count = 0;
	for (const struct upload_file *file = *bucket_of(uploads, begin->build_id, begin->kind); file; file = file->next)
		count += is_of(file, begin->tenant, begin->build_id, begin->kind) &&
			 strcmp(file->content_key, begin->content_key) != 0;
	return count;
}

struct upload_file *uploads_file_new(const struct upload_place *place, uint64_t size)
{
	size_t tenant_len = strlen(place->tenant);
	struct upload_file *file = mem_zalloc(sizeof(*file) + tenant_len + 1);
	if (!file)
		return NULL;
	snprintf(file->build_id, sizeof(file->build_id), "%s", place->build_id);
	snprintf(file->content, sizeof(file->content), "%s", place->content);
	snprintf(file->content_key, sizeof(file->content_key), "%s", place->content_key);
	memcpy(file->tenant, place->tenant, tenant_len);
	file->tenant_hash = hash64(place->tenant, tenant_len);
	file->kind = (uint8_t)place->kind;
	file->id_type = (uint8_t)place->id_type;
	file->size = size;
	return file;
}

struct upload_file *uploads_file_free(struct upload_file *file)
{
	struct upload_alias *alias = file ? file->aliases : NULL;
	while (alias) {
		struct upload_alias *next = alias->next_of_file;
		mem_free(alias);
		alias = next;
	}
	return mem_free(file);
}

/* ---- the order of use ---- */

void uploads_file_use(struct uploads *uploads, struct upload_file *file, int64_t now_ns)
{
	use_order_remove(uploads, file);
	use_order_add(uploads, file);
	file->used_ns = now_ns;
}

static void forget(struct uploads *uploads, struct upload_file *file)
{
	struct upload_file **at = bucket_of(uploads, file->build_id, file->kind);
	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	use_order_remove(uploads, file);
	uploads_alias_forget(uploads, file);
	uploads->stats.files--;
	uploads->stats.bytes -= file->size;
	uploads_file_free(file);
}

/* The first that `file`, which is not in the index yet, replaces, from `at` on. What one without a key replaces, it does as it
 * comes: two that lie there may be of two binaries. */
static struct upload_file *find_replaced(struct uploads *uploads, const struct upload_file *file, bool arrives,
					 struct upload_file *at)
{
	struct upload_begin like = {.kind = file->kind};
	snprintf(like.tenant, sizeof(like.tenant), "%.150s", file->tenant);
	snprintf(like.build_id, sizeof(like.build_id), "%s", file->build_id);
	snprintf(like.content_key, sizeof(like.content_key), "%s", file->content_key);
	bool is_last_word = arrives && !file->content_key[0] && uploads_file_count_others(uploads, &like) == 1 &&
			    !uploads_file_find_content(uploads, file->tenant, file->build_id, file->kind, "");
	for (; at; at = at->next) {
		if (!is_of(at, file->tenant, file->build_id, file->kind))
			continue;
		if (is_last_word || strcmp(at->content_key, file->content_key) == 0)
			return at;
		/* The same file, of which it was not known what it is of. */
		if (!at->content_key[0] && strcmp(at->content, file->content) == 0)
			return at;
	}
	return NULL;
}

void uploads_file_add(struct uploads *uploads, struct upload_file *file, bool arrives)
{
	struct upload_file *old;
	while ((old = find_replaced(uploads, file, arrives, *bucket_of(uploads, file->build_id, file->kind))))
		forget(uploads, old);
	struct upload_file **bucket = bucket_of(uploads, file->build_id, file->kind);
	file->next = *bucket;
	*bucket = file;
	use_order_add(uploads, file);
	uploads_alias_add(uploads, file);
	uploads->stats.files++;
	uploads->stats.bytes += file->size;
}

/* What is found by an id of one tenant: all that was announced by it; if there is none, all that carries it. The first is that
 * of uploads_find(). */
static const struct upload_file *next_found(struct uploads *uploads, const char *build_id, enum upload_kind kind,
					    const struct upload_file *file)
{
	const char *tenant = file->tenant;
	if (strcmp(file->build_id, build_id) != 0) {
		while ((file = uploads_alias_find(uploads, build_id, kind, file)))
			if (strcmp(file->tenant, tenant) == 0)
				break;
		return file;
	}
	const struct upload_file *next = file->next;
	while (next && !is_of(next, tenant, build_id, kind))
		next = next->next;
	return next;
}

bool uploads_has_other_content(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id,
			       enum upload_kind kind, const char *content_key)
{
	bool has = false;
	pthread_mutex_lock(&uploads->lock);
	const struct upload_file *file = uploads_find(uploads, scope, build_id, kind);
	for (; file && !has; file = next_found(uploads, build_id, kind, file))
		has = file->content_key[0] && strcmp(file->content_key, content_key) != 0;
	pthread_mutex_unlock(&uploads->lock);
	return has;
}

size_t uploads_list_contents(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id,
			     char (*ret)[UPLOAD_CONTENT_HEX], size_t max)
{
	size_t count = 0;
	pthread_mutex_lock(&uploads->lock);
	const struct upload_file *file = uploads_find(uploads, scope, build_id, UPLOAD_DEBUGINFO);
	for (; file; file = next_found(uploads, build_id, UPLOAD_DEBUGINFO, file)) {
		bool is_new = true;
		for (size_t i = 0; is_new && i < count && i < max; i++)
			is_new = strcmp(ret[i], file->content) != 0;
		if (is_new && count < max)
			memcpy(ret[count], file->content, UPLOAD_CONTENT_HEX);
		count += is_new;
	}
	pthread_mutex_unlock(&uploads->lock);
	return count;
}

int uploads_open_content(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, const char *content,
			 int *ret_fd, struct error *err)
{
	char path[PATH_MAX];
	bool is_build_id = false;
	pthread_mutex_lock(&uploads->lock);
	const struct upload_file *file = uploads_find(uploads, scope, build_id, UPLOAD_DEBUGINFO);
	while (file && strcmp(file->content, content) != 0)
		file = next_found(uploads, build_id, UPLOAD_DEBUGINFO, file);
	if (file)
		is_build_id = uploads_file_has_build_id(file, build_id);
	int r = file ? uploads_file_path(uploads, file, path, err)
		     : error_set(err, -ENOENT, "no upload of that content for build-id %.128s", build_id);
	pthread_mutex_unlock(&uploads->lock);
	int fd = r < 0 ? r : io_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return !is_build_id;
}

/* ---- room ---- */

/* The path of the file that there is; 0 if there is none, else positive. */
static int find_path(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind,
		     char out[static PATH_MAX], struct error *err)
{
	pthread_mutex_lock(&uploads->lock);
	const struct upload_file *file = uploads_find(uploads, scope, build_id, kind);
	int r = file ? uploads_file_path(uploads, file, out, err) : 0;
	pthread_mutex_unlock(&uploads->lock);
	return r < 0 ? r : file != NULL;
}

int uploads_file_remove(struct uploads *uploads, struct upload_file *file, struct error *err)
{
	char path[PATH_MAX];
	int r = uploads_file_path(uploads, file, path, err);
	if (r == 0)
		r = io_unlink(path, err);
	if (r < 0)
		return r;
	*strrchr(path, '/') = 0;
	rmdir(path); /* stays if there is another kind, or content */
	uploads_alias_unlink(uploads, file);
	uploads_alias_restore(uploads, file);
	pthread_mutex_lock(&uploads->lock);
	forget(uploads, file);
	pthread_mutex_unlock(&uploads->lock);
	return 0;
}

void uploads_file_remove_others(struct uploads *uploads, const struct upload_file *file, bool arrives)
{
	char path[PATH_MAX], own[PATH_MAX];
	if (uploads_file_path(uploads, file, own, NULL) < 0)
		return;
	pthread_mutex_lock(&uploads->lock);
	struct upload_file *old = *bucket_of(uploads, file->build_id, file->kind);
	/* Only who holds place_lock takes one away. */
	while ((old = find_replaced(uploads, file, arrives, old))) {
		bool is_other = uploads_file_path(uploads, old, path, NULL) == 0 && strcmp(path, own) != 0;
		pthread_mutex_unlock(&uploads->lock);
		if (is_other) {
			io_unlink(path, NULL);
			uploads_alias_unlink(uploads, old);
			uploads_alias_restore(uploads, old);
		}
		pthread_mutex_lock(&uploads->lock);
		old = old->next;
	}
	pthread_mutex_unlock(&uploads->lock);
}

void uploads_file_forget_lost(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id,
			      enum upload_kind kind)
{
	char path[PATH_MAX];
	struct stat info;
	pthread_mutex_lock(&uploads->place_lock);
	bool lost = find_path(uploads, scope, build_id, kind, path, NULL) > 0 && lstat(path, &info) < 0 && errno == ENOENT;
	pthread_mutex_lock(&uploads->lock);
	struct upload_file *file = lost ? uploads_find(uploads, scope, build_id, kind) : NULL;
	if (file)
		forget(uploads, file);
	pthread_mutex_unlock(&uploads->lock);
	pthread_mutex_unlock(&uploads->place_lock);
}

/* The lock is held: the least recently used file of the tenant that has most bytes, or, if there are too many files, most
 * files. Without memory for the sums, of all. */
static struct upload_file *find_first_to_go(struct uploads *uploads, bool by_count)
{
	_cleanup_(map64_release) struct map64 sums = {0};
	uint64_t most = 0, largest = 0, sum;
	for (const struct upload_file *file = uploads->newest; file; file = file->older) {
		if (!map64_get(&sums, file->tenant_hash, &sum))
			sum = 0;
		sum += by_count ? 1 : file->size;
		if (map64_put(&sums, file->tenant_hash, sum) < 0)
			return uploads->oldest;
		if (sum > most) {
			most = sum;
			largest = file->tenant_hash;
		}
	}
	struct upload_file *file = uploads->oldest;
	while (file && most && file->tenant_hash != largest)
		file = file->newer;
	return file;
}

/* 0: nothing has to go; 1: what has to go first, which is there as long as place_lock is held. */
static int next_to_go(struct uploads *uploads, struct upload_file **ret, struct error *err)
{
	char size[TEXT_NUMBER_MAX];
	pthread_mutex_lock(&uploads->lock);
	bool are_many = uploads->stats.files >= UPLOADS_FILES_MAX;
	bool full = uploads->stats.bytes + uploads->part_bytes > uploads->options.bytes_max || are_many;
	*ret = full ? find_first_to_go(uploads, are_many) : NULL;
	pthread_mutex_unlock(&uploads->lock);
	if (!full || *ret)
		return full;
	return error_set(err, -ENOSPC, "the limit of uploaded debug information is %s, and uploads in progress fill it",
			 text_format_size(uploads->options.bytes_max, size));
}

int uploads_make_room(struct uploads *uploads, struct error *err)
{
	struct upload_file *file;
	int r = next_to_go(uploads, &file, err);
	if (r <= 0)
		return r;
	pthread_mutex_lock(&uploads->place_lock);
	while ((r = next_to_go(uploads, &file, err)) > 0) {
		r = uploads_file_remove(uploads, file, err);
		if (r < 0)
			break;
		pthread_mutex_lock(&uploads->lock);
		uploads->stats.evicted++;
		pthread_mutex_unlock(&uploads->lock);
	}
	pthread_mutex_unlock(&uploads->place_lock);
	return r;
}

/* ---- reading the directory ---- */

/* A link, in the place that `link` is of, to a file announced by that id. */
struct found_link {
	struct upload_file *link;
	enum file_id_type type;
	char id[BUILD_ID_HEX_MAX];
};
struct found {
	struct upload_file **files;
	struct found_link *links;
	size_t count, capacity, link_count, link_capacity;
};

static int found_add_link(struct found *found, const struct upload_place *place, const char *target, struct error *err)
{
	struct found_link item = {0};
	if (!uploads_alias_parse(target, &item.type, item.id))
		return 0;
	item.link = uploads_file_new(place, 0);
	if (!item.link ||
	    array_push(&found->links, &found->link_count, &found->link_capacity, UPLOADS_FILES_MAX * FILE_ID_TYPES, item) < 0) {
		uploads_file_free(item.link);
		return error_nomem(err);
	}
	return 0;
}

static int found_add(void *context, const struct upload_place *place, const char *target, uint64_t size, int64_t used_ns,
		     struct error *err)
{
	struct found *found = context;
	if (target)
		return found_add_link(found, place, target, err);
	int r = array_reserve(&found->files, &found->capacity, found->count + 1, SIZE_MAX / sizeof(*found->files));
	struct upload_file *file = r < 0 ? NULL : uploads_file_new(place, size);
	if (!file)
		return error_nomem(err);
	file->used_ns = used_ns;
	found->files[found->count++] = file;
	return 0;
}

DEFINE_ORDER(compare_use, struct upload_file *const, ORDER((*a)->used_ns, (*b)->used_ns));

/* Takes the link in; one that leads nowhere is removed: its file has gone, or never came. */
static int take_link(struct uploads *uploads, const struct found_link *found, struct error *err)
{
	char path[PATH_MAX];
	struct upload_place place = uploads_file_place(found->link);
	place.id_type = found->type;
	place.build_id = found->id;
	struct upload_file *file = uploads_file_find_exact(uploads, &place);
	if (!file) {
		if (uploads_file_path(uploads, found->link, path, NULL) == 0)
			io_unlink(path, NULL);
		return 0;
	}
	return uploads_alias_take(uploads, file, found->link->id_type, found->link->build_id, err);
}

/* And releases them, also after a failure r. */
static int take_links(struct uploads *uploads, struct found *found, int r, struct error *err)
{
	for (size_t i = 0; i < found->link_count; i++) {
		if (r == 0)
			r = take_link(uploads, &found->links[i], err);
		uploads_file_free(found->links[i].link);
	}
	mem_free(found->links);
	return r;
}

int uploads_files_load(struct uploads *uploads, struct error *err)
{
	struct found found = {0};
	int r = uploads_layout_migrate(uploads->options.directory, err);
	if (!r)
		r = uploads_layout_read(uploads->options.directory, found_add, &found, err);
	if (!r)
		sort_array(found.files, found.count, compare_use);
	for (size_t i = 0; i < found.count; i++) {
		if (r < 0) {
			uploads_file_free(found.files[i]);
			continue;
		}
		/* Two, after a crash before the older one was removed. What cannot be removed now is found again. */
		uploads_file_remove_others(uploads, found.files[i], false);
		uploads_file_add(uploads, found.files[i], false);
	}
	mem_free(found.files);
	return take_links(uploads, &found, r, err);
}

void uploads_files_release(struct uploads *uploads)
{
	for (struct upload_file *file = uploads->newest, *older; file; file = older) {
		older = file->older;
		uploads_file_free(file);
	}
	uploads->newest = uploads->oldest = NULL;
}
