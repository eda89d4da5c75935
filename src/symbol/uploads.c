/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug information on its way in.
 *
 *   DIRECTORY/incoming/ID.part   what has arrived of a file
 *   DIRECTORY/incoming/ID.note   what it is going to be, and how much of it survives a power cut (struct note)
 *   DIRECTORY/files/...          whole files (uploads_layout.c)
 *
 * Pieces are appended in order; the next offset is the only state of an upload. Files are large and lines to servers break, so
 * an upload outlives its connection, its client and the server: whoever announces the same file again (id, content, kind, size
 * and hash) goes on where it stopped. After a crash of the machine the part may be longer than what reached the disk, with
 * holes of zeros in it, so its length is not believed: every SYNC_BYTES the part is synced, then its note says so, and that is
 * where an upload goes on after a restart that was not orderly. At most SYNC_BYTES are sent twice.
 *
 * At the end the part is checked, synced, renamed to its place, and both directories are synced, before the client gets the
 * response. The note is removed last: a note without a part is swept away at start. A file is never seen in its place before it
 * is whole.
 *
 * Nobody can take much by announcing much: room is made, by removing what has not been used for longest, when bytes arrive, not
 * when they are promised. Announcing is limited by the number of uploads at once, and by the disk, which has to have room for
 * all that those who are at it have promised; as others write to it too, it is looked at again with each piece. One that has
 * stopped for longer than the lease gives way to others; after PART_AGE_MAX it is removed.
 *
 * Two locks. `lock` is over what is in memory, and is never held during I/O, as queries wait for it: who writes a part or its
 * note marks the upload as busy instead, and parts that are given up are removed when it has been released
 * (unlock_and_remove()). `place_lock`, taken before it, is held by who puts a file into its place, or takes it away, until the
 * index says so too: otherwise one that is evicted might be removed after another has come to its name. Rejected: a lock for
 * each upload, as all that is done under the one lock is a walk over an array of 64.
 */
#include "symbol/uploads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "symbol/uploads_int.h"

#define BYTES_MAX_DEFAULT      (16 * GIB)
#define FILE_BYTES_MAX_DEFAULT (2 * GIB)
#define LEASE_NS_DEFAULT       (15 * 60 * NS_PER_S)
#define OPEN_MAX_DEFAULT       64u
#define RESUME_NS	       (10 * NS_PER_S) /* without progress: then the same file may be gone on with by another */
#define PART_AGE_MAX_NS	       (24 * 3600 * NS_PER_S)
#define SYNC_BYTES	       (8 * MIB)
#define DISK_LEFT_MAX	       (1 * GIB) /* left free for others: a twentieth of the disk, at most this */

/* ---- notes ---- */

#define NOTE_MAGIC_1 0x31746f6e6b636977ull /* "wicknot1" */
#define NOTE_MAGIC_2 0x32746f6e6b636977ull /* "wicknot2" */
#define NOTE_MAGIC   0x33746f6e6b636977ull /* "wicknot3" */
/* As it is on disk; read only by the machine that wrote it, so in its byte order. */
struct note_head {
	uint64_t magic, size;
	uint32_t kind;
	uint8_t without_build_id, id_type, zeros[2]; /* id_type: since version 2, which is else 0 */
	char build_id[136], hash[72];		     /* terminated */
	uint64_t checksum;			     /* of all above */
};
struct note_tail {
	char tenant[152];     /* terminated, as the next; since version 2 */
	char content_key[40]; /* since version 3 */
	uint64_t checksum;
};
struct note_synced {
	uint64_t offset, checksum;
};
struct note {
	struct note_head head;
	struct note_tail tail;
	struct note_synced synced; /* rewritten in place; what is torn counts as 0 */
};
struct note_1 {
	struct note_head head;
	struct note_synced synced;
};
struct note_2 {
	struct note_head head;
	struct {
		char tenant[152];
		uint64_t checksum;
	} tail;
	struct note_synced synced;
};

static uint64_t head_checksum(const struct note_head *head)
{
	return hash64(head, offsetof(struct note_head, checksum));
}

static uint64_t tail_checksum(const struct note_tail *tail)
{
	return hash64(tail, offsetof(struct note_tail, checksum));
}

/* The same in all versions. */
static struct note_synced synced_note(uint64_t offset)
{
	return (struct note_synced){.offset = offset, .checksum = hash64_mix(offset ^ NOTE_MAGIC_1)};
}

static void note_make(struct note *note, const struct upload_begin *begin)
{
	*note = (struct note){.head = {.magic = NOTE_MAGIC,
				       .size = begin->size,
				       .kind = begin->kind,
				       .without_build_id = begin->without_build_id,
				       .id_type = (uint8_t)begin->id_type}};
	snprintf(note->head.build_id, sizeof(note->head.build_id), "%s", begin->build_id);
	snprintf(note->head.hash, sizeof(note->head.hash), "%s", begin->hash);
	snprintf(note->tail.tenant, sizeof(note->tail.tenant), "%s", begin->tenant);
	snprintf(note->tail.content_key, sizeof(note->tail.content_key), "%s", begin->content_key);
	note->head.checksum = head_checksum(&note->head);
	note->tail.checksum = tail_checksum(&note->tail);
	note->synced = synced_note(0);
}

static bool note_update_2(struct note *note)
{
	struct note_2 old;
	memcpy(&old, note, sizeof(old));
	if (old.head.checksum != head_checksum(&old.head) || old.tail.checksum != hash64(&old.tail, sizeof(old.tail.tenant)))
		return false;
	note->tail = (struct note_tail){0};
	memcpy(note->tail.tenant, old.tail.tenant, sizeof(note->tail.tenant));
	note->synced = old.synced;
	return true;
}

/* A note of an older version becomes one of this. False if it is none, or torn. */
static bool note_update(struct note *note, size_t len)
{
	struct note_1 old;
	if (len == sizeof(struct note_2) && note->head.magic == NOTE_MAGIC_2)
		return note_update_2(note);
	if (len == sizeof(*note) && note->head.magic == NOTE_MAGIC)
		return note->head.checksum == head_checksum(&note->head) && note->tail.checksum == tail_checksum(&note->tail);
	memcpy(&old, note, sizeof(old));
	if (len != sizeof(old) || old.head.magic != NOTE_MAGIC_1 || old.head.checksum != head_checksum(&old.head))
		return false;
	note->tail = (struct note_tail){0};
	note->synced = old.synced;
	return true;
}

static bool note_parse(struct note *note, size_t len, struct upload_begin *ret, uint64_t *ret_synced)
{
	const struct note_head *head = &note->head;
	if (!note_update(note, len) || head->kind >= UPLOAD_KINDS || head->id_type >= FILE_ID_TYPES ||
	    strnlen(head->build_id, sizeof(head->build_id)) >= sizeof(ret->build_id) ||
	    strnlen(head->hash, sizeof(head->hash)) >= sizeof(ret->hash) ||
	    strnlen(note->tail.tenant, sizeof(note->tail.tenant)) >= sizeof(ret->tenant) ||
	    strnlen(note->tail.content_key, sizeof(note->tail.content_key)) >= sizeof(ret->content_key) ||
	    !upload_tenant_is_valid(note->tail.tenant) || !build_id_is_valid(head->build_id) ||
	    (note->tail.content_key[0] && !content_key_is_valid(note->tail.content_key)))
		return false;
	*ret = (struct upload_begin){
		.kind = head->kind, .size = head->size, .without_build_id = head->without_build_id, .id_type = head->id_type};
	snprintf(ret->tenant, sizeof(ret->tenant), "%.150s", note->tail.tenant);
	snprintf(ret->build_id, sizeof(ret->build_id), "%.128s", head->build_id);
	snprintf(ret->hash, sizeof(ret->hash), "%.64s", head->hash);
	snprintf(ret->content_key, sizeof(ret->content_key), "%.32s", note->tail.content_key);
	struct note_synced good = synced_note(note->synced.offset);
	*ret_synced = memcmp(&good, &note->synced, sizeof(good)) == 0 ? good.offset : 0;
	return true;
}

/* ---- paths ---- */

/* kind: "part" or "note". */
static void incoming_path(const struct uploads *uploads, const char *id, const char *kind, char out[static PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s/%s.%s", uploads->incoming, id, kind); /* its length was checked by uploads_open() */
}

static void remove_part(const struct uploads *uploads, const char *id)
{
	char path[PATH_MAX];
	incoming_path(uploads, id, "part", path);
	io_unlink(path, NULL);
	incoming_path(uploads, id, "note", path);
	io_unlink(path, NULL);
}

static int make_id(char out[static UPLOAD_ID_MAX], struct error *err)
{
	uint64_t random[2];
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return error_set_errno(err, -EIO, "cannot get random bytes for an upload's id");
	snprintf(out, UPLOAD_ID_MAX, "%016llx%016llx", (unsigned long long)random[0], (unsigned long long)random[1]);
	return 0;
}

/* ---- the open ones; the lock is held ---- */

static struct upload *find_open(struct uploads *uploads, const char *id)
{
	for (size_t i = 0; i < uploads->options.open_max; i++)
		if (uploads->open[i].used && strcmp(uploads->open[i].id, id) == 0)
			return &uploads->open[i];
	return NULL;
}

/* content_key NULL: of any. */
static struct upload *find_open_file(struct uploads *uploads, const char *tenant, const char *build_id, enum upload_kind kind,
				     const char *content_key)
{
	for (size_t i = 0; i < uploads->options.open_max; i++) {
		struct upload *upload = &uploads->open[i];
		if (upload->used && upload->begin.kind == kind && strcmp(upload->begin.build_id, build_id) == 0 &&
		    strcmp(upload->begin.tenant, tenant) == 0 &&
		    (!content_key || strcmp(upload->begin.content_key, content_key) == 0))
			return upload;
	}
	return NULL;
}

static void release(struct uploads *uploads, struct upload *upload)
{
	uploads->part_bytes -= upload->offset;
	uploads->stats.open--;
	*upload = (struct upload){0};
}

static void drop(struct uploads *uploads, struct upload *upload)
{
	if (uploads->pending_removal_count < uploads->options.open_max)
		memcpy(uploads->pending_removals[uploads->pending_removal_count++], upload->id, UPLOAD_ID_MAX);
	else
		remove_part(uploads, upload->id); /* threads drop faster than they remove: this does not happen */
	release(uploads, upload);
}

static void fail_and_drop(struct uploads *uploads, struct upload *upload)
{
	drop(uploads, upload);
	uploads->stats.failed++;
}

/* Unlocks, and removes what was dropped. Ids are never used twice, so nobody can have begun anew with the same files. */
static void unlock_and_remove(struct uploads *uploads)
{
	char id[UPLOAD_ID_MAX];
	while (uploads->pending_removal_count) {
		memcpy(id, uploads->pending_removals[--uploads->pending_removal_count], sizeof(id));
		pthread_mutex_unlock(&uploads->lock);
		remove_part(uploads, id);
		pthread_mutex_lock(&uploads->lock);
	}
	pthread_mutex_unlock(&uploads->lock);
}

static bool is_active(const struct upload *upload, int64_t quiet_ns, int64_t now_ns)
{
	/* A clock that was set back must not keep an upload for ever. */
	return upload->busy || (!upload->restored && now_ns - upload->active_ns < quiet_ns && now_ns >= upload->active_ns);
}

/* A place for one more; of those that have stopped, the one that did so first gives way. */
static struct upload *free_place(struct uploads *uploads, int64_t now_ns)
{
	struct upload *oldest = NULL;
	for (size_t i = 0; i < uploads->options.open_max; i++) {
		struct upload *upload = &uploads->open[i];
		if (!upload->used)
			return upload;
		if (!upload->busy && (!oldest || upload->active_ns < oldest->active_ns))
			oldest = upload;
	}
	if (!oldest || is_active(oldest, uploads->options.lease_ns, now_ns))
		return NULL;
	fail_and_drop(uploads, oldest);
	return oldest;
}

static void drop_old(struct uploads *uploads, int64_t now_ns)
{
	for (size_t i = 0; i < uploads->options.open_max; i++) {
		struct upload *upload = &uploads->open[i];
		if (upload->used && !upload->busy && now_ns - upload->active_ns > PART_AGE_MAX_NS)
			fail_and_drop(uploads, upload);
	}
}

/* ---- begin ---- */

static bool is_same_file(const struct upload_begin *a, const struct upload_begin *b)
{
	return a->size == b->size && *a->hash && strcmp(a->hash, b->hash) == 0 && a->without_build_id == b->without_build_id &&
	       a->id_type == b->id_type;
}

static int check_begin(const struct uploads *uploads, const struct upload_begin *begin, struct error *err)
{
	char size[TEXT_NUMBER_MAX], most[TEXT_NUMBER_MAX];
	if (begin->kind >= UPLOAD_KINDS)
		return error_set(err, -EINVAL, "unknown kind of upload");
	if (begin->id_type >= FILE_ID_TYPES || !upload_tenant_is_valid(begin->tenant))
		return error_set(err, -EINVAL, "unknown type of id, or a tenant of that name cannot have uploads");
	if (!build_id_is_valid(begin->build_id) || strlen(begin->build_id) < 4)
		return error_set(err, -EINVAL, "a build-id must be 2 to %u bytes as lower-case hex digits", BUILD_ID_BYTES_MAX);
	if (begin->content_key[0] && !content_key_is_valid(begin->content_key))
		return error_set(err, -EINVAL, "a content key must be 32 lower-case hex digits");
	for (const char *at = begin->hash; *at; at++)
		if ((*at < '0' || *at > '9') && (*at < 'a' || *at > 'z') && (*at < 'A' || *at > 'Z'))
			return error_set(err, -EINVAL, "a hash must be up to 64 letters and digits");
	if (begin->size == 0)
		return error_set(err, -EINVAL, "the size of an upload must be more than 0");
	uint64_t max = uploads->options.file_bytes_max < uploads->options.bytes_max ? uploads->options.file_bytes_max
										    : uploads->options.bytes_max;
	if (begin->size > max)
		return error_set(err, -E2BIG,
				 "the file has %s, the limit is %s (symbols.uploads in the server's configuration)",
				 text_format_size(begin->size, size), text_format_size(max, most));
	return 0;
}

/* The disk is shared with what the server is there for. */
static int check_disk(const struct uploads *uploads, uint64_t more, struct error *err)
{
	struct statvfs disk;
	if (statvfs(uploads->options.directory, &disk) < 0)
		return error_set_errno(err, -errno, "cannot determine the free space of %s", uploads->options.directory);
	uint64_t left = (uint64_t)disk.f_blocks * disk.f_frsize / 20;
	if (left > DISK_LEFT_MAX)
		left = DISK_LEFT_MAX;
	uint64_t available = (uint64_t)disk.f_bavail * disk.f_frsize;
	if (available >= left && available - left >= more)
		return 0;
	return error_set(err, -ENOSPC, "the server's disk has no room for debug information");
}

static int write_note(const struct uploads *uploads, const char *id, const struct upload_begin *begin, struct error *err)
{
	struct note note;
	char path[PATH_MAX];
	note_make(&note, begin);
	incoming_path(uploads, id, "note", path);
	return io_write_file(path, &note, sizeof(note), 0640, err);
}

/* Goes on with what is there, or makes room for another beginning: 0 = *upload is gone, 1 = it is to be resumed. */
static int meet_other(struct uploads *uploads, struct upload *upload, const struct upload_begin *begin, int64_t now_ns,
		      struct error *err)
{
	bool same = is_same_file(&upload->begin, begin);
	int64_t quiet_ns = uploads->options.lease_ns;
	if (same && quiet_ns > RESUME_NS)
		quiet_ns = RESUME_NS;
	if (is_active(upload, quiet_ns, now_ns) && (upload->busy || same || !begin->force))
		return error_set(err, -EBUSY, "another client is uploading this file");
	if (same)
		return 1;
	fail_and_drop(uploads, upload);
	return 0;
}

/* What is still to come of those that somebody is sending. Fits into 64 bits, as it has fitted on the disk. */
static uint64_t promised_bytes(const struct uploads *uploads, int64_t now_ns)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < uploads->options.open_max; i++) {
		const struct upload *upload = &uploads->open[i];
		if (upload->used && is_active(upload, uploads->options.lease_ns, now_ns))
			bytes += upload->begin.size - upload->offset;
	}
	return bytes;
}

static size_t count_open(const struct uploads *uploads, const char *tenant)
{
	size_t count = 0;
	for (size_t i = 0; i < uploads->options.open_max; i++)
		count += uploads->open[i].used && strcmp(uploads->open[i].begin.tenant, tenant) == 0;
	return count;
}

/* The place is taken, and busy, while its note is written without the lock. */
static int begin_new(struct uploads *uploads, const struct upload_begin *begin, int64_t now_ns, struct upload **ret,
		     struct error *err)
{
	size_t own_max = uploads->options.tenant_open_max;
	if (own_max && count_open(uploads, begin->tenant) >= own_max)
		return error_set(err, -EAGAIN, "%zu uploads of the tenant are in progress already; try again later", own_max);
	struct upload *upload = free_place(uploads, now_ns);
	if (!upload)
		return error_set(err, -EAGAIN, "%zu uploads are in progress already; try again later",
				 uploads->options.open_max);
	uint64_t promised = promised_bytes(uploads, now_ns);
	struct upload new = {.used = true, .busy = true, .begin = *begin};
	int r = make_id(new.id, err);
	if (r < 0)
		return r;
	*upload = new;
	uploads->stats.open++;
	pthread_mutex_unlock(&uploads->lock);
	r = check_disk(uploads, begin->size + promised, err);
	if (!r)
		r = write_note(uploads, new.id, begin, err);
	pthread_mutex_lock(&uploads->lock);
	upload->busy = false;
	if (r < 0)
		drop(uploads, upload);
	else
		*ret = upload;
	return r;
}

/* Those on their way count: otherwise all come that are announced at once. */
static int check_contents(const struct uploads *uploads, const struct upload_begin *begin, int64_t now_ns, unsigned others,
			  struct error *err)
{
	for (size_t i = 0; i < uploads->options.open_max; i++) {
		const struct upload *upload = &uploads->open[i];
		others += upload->used && upload->begin.kind == begin->kind &&
			  strcmp(upload->begin.build_id, begin->build_id) == 0 &&
			  strcmp(upload->begin.tenant, begin->tenant) == 0 &&
			  strcmp(upload->begin.content_key, begin->content_key) != 0 &&
			  is_active(upload, uploads->options.lease_ns, now_ns);
	}
	if (others < UPLOAD_CONTENTS_MAX)
		return 0;
	return error_set(err, -EDQUOT, "there are %u different files of that id already, or on their way; more are not kept",
			 UPLOAD_CONTENTS_MAX);
}

static int begin_locked(struct uploads *uploads, const struct upload_begin *begin, struct upload **ret, struct error *err)
{
	int64_t now_ns = time_now_ns();
	drop_old(uploads, now_ns);
	const char *key = begin->content_key;
	const struct upload_file *file =
		*key ? uploads_file_find_content(uploads, begin->tenant, begin->build_id, begin->kind, key)
		     : uploads_file_find(uploads, begin->tenant, begin->build_id, begin->kind);
	if (!begin->force && file)
		return error_set(err, -EEXIST, "%s of that build-id already exists", upload_kind_names[begin->kind]);
	int r = check_contents(uploads, begin, now_ns, uploads_file_count_others(uploads, begin), err);
	if (r < 0) {
		uploads->stats.contents_refused++;
		return r;
	}
	struct upload *upload = find_open_file(uploads, begin->tenant, begin->build_id, begin->kind, key);
	r = upload ? meet_other(uploads, upload, begin, now_ns, err) : 0;
	if (r == 0)
		r = begin_new(uploads, begin, now_ns, &upload, err);
	if (r < 0)
		return r;
	upload->active_ns = now_ns;
	upload->restored = false;
	*ret = upload;
	return 0;
}

int uploads_begin(struct uploads *uploads, const struct upload_begin *begin, char ret_id[static UPLOAD_ID_MAX],
		  uint64_t *ret_offset, struct error *err)
{
	struct upload *upload = NULL;
	int r = check_begin(uploads, begin, err);
	pthread_mutex_lock(&uploads->lock);
	if (!r)
		r = begin_locked(uploads, begin, &upload, err);
	if (r < 0) {
		uploads->stats.refused++;
	} else {
		memcpy(ret_id, upload->id, UPLOAD_ID_MAX);
		*ret_offset = upload->offset;
		uploads->stats.begun++;
	}
	unlock_and_remove(uploads);
	return r;
}

/* ---- pieces ---- */

static int open_part(const struct uploads *uploads, const char *id, struct error *err)
{
	char path[PATH_MAX];
	incoming_path(uploads, id, "part", path);
	return io_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0640, err);
}

/* The part is on the disk up to `offset`: says so in the note. */
static int note_offset(const struct uploads *uploads, const char *id, uint64_t offset, struct error *err)
{
	char path[PATH_MAX];
	struct note_synced synced = synced_note(offset);
	incoming_path(uploads, id, "note", path);
	_cleanup_(fd_closep) int fd = io_open(path, O_WRONLY | O_NOFOLLOW, 0, err);
	return fd < 0 ? fd : io_pwrite(fd, &synced, sizeof(synced), offsetof(struct note, synced), path, err);
}

static int sync_part(const struct uploads *uploads, int fd, const char *id, uint64_t offset, struct error *err)
{
	int r = io_sync(fd, "the uploaded file", err);
	return r < 0 ? r : note_offset(uploads, id, offset, err);
}

/* Without the lock; the upload is busy, so that nobody else touches it or its files. */
static int write_piece(struct uploads *uploads, const struct upload *upload, struct bytes data, uint64_t *synced,
		       struct error *err)
{
	int r = uploads_make_room(uploads, err);
	if (!r)
		r = check_disk(uploads, data.len, err);
	if (r < 0)
		return r;
	_cleanup_(fd_closep) int fd = open_part(uploads, upload->id, err);
	if (fd < 0)
		return fd;
	r = io_pwrite(fd, data.data, data.len, upload->offset, "the uploaded file", err);
	uint64_t end = upload->offset + data.len;
	if (r < 0 || end - upload->synced < SYNC_BYTES || end == upload->begin.size)
		return r;
	r = sync_part(uploads, fd, upload->id, end, err);
	if (!r)
		*synced = end;
	return r;
}

static int check_piece(const struct upload *upload, uint64_t offset, struct bytes data, struct error *err)
{
	if (upload->busy || offset != upload->offset)
		return error_set(err, -ERANGE, "the next part starts at %llu", (unsigned long long)upload->offset);
	if (data.len > upload->begin.size - upload->offset)
		return error_set(err, -EINVAL, "more than the declared %llu bytes", (unsigned long long)upload->begin.size);
	bool enough = data.len >= UPLOAD_START_BYTES || data.len == upload->begin.size;
	if (offset == 0 && enough && !upload_begins_well(upload->begin.kind, data))
		return error_set(err, -EBADMSG, "the upload does not start like a file of kind %s",
				 upload_kind_names[upload->begin.kind]);
	return 0;
}

static int write_locked(struct uploads *uploads, struct upload *upload, uint64_t offset, struct bytes data, struct error *err)
{
	int r = check_piece(upload, offset, data, err);
	if (r == -EBADMSG)
		fail_and_drop(uploads, upload);
	if (r < 0 || !data.len)
		return r;
	uint64_t synced = upload->synced;
	upload->busy = true;
	uploads->part_bytes += data.len; /* spoken for, so that room is made for it, also by others */
	pthread_mutex_unlock(&uploads->lock);
	r = write_piece(uploads, upload, data, &synced, err);
	pthread_mutex_lock(&uploads->lock);
	upload->busy = false;
	if (r < 0) {
		uploads->part_bytes -= data.len;
		return r;
	}
	upload->synced = synced;
	upload->offset += data.len;
	upload->active_ns = time_now_ns();
	upload->restored = false;
	uploads->stats.bytes_received += data.len;
	return 0;
}

static int unknown_id(struct error *err)
{
	return error_set(err, -ENOENT, "no such upload, or it expired; start again");
}

int uploads_write(struct uploads *uploads, const char *id, uint64_t offset, struct bytes data, uint64_t *ret_offset,
		  struct error *err)
{
	pthread_mutex_lock(&uploads->lock);
	struct upload *upload = find_open(uploads, id);
	int r = upload ? write_locked(uploads, upload, offset, data, err) : unknown_id(err);
	*ret_offset = upload && upload->used ? upload->offset : 0;
	unlock_and_remove(uploads);
	return r;
}

/* ---- the end ---- */

/* Renames the part, and adds it to the index. Then the upload is no more, but for its note. */
static int move_in_place(struct uploads *uploads, struct upload *upload, const char *path, struct upload_file *file,
			 struct error *err)
{
	char from[PATH_MAX], folder[PATH_MAX];
	incoming_path(uploads, upload->id, "part", from);
	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
	pthread_mutex_lock(&uploads->place_lock);
	int r = io_make_dirs(folder, 0750, err); /* again: who removed the last file in it may have removed it, too */
	if (!r)
		r = uploads_alias_link(uploads, file, err);
	if (!r)
		r = io_rename(from, path, err); /* should it fail, the links lead nowhere, and go with the next start */
	if (!r)
		r = uploads_sync_dirs(uploads->options.directory, folder, err) < 0 ? 1 : 0;
	/* What it replaces is removed when it is there for good; what cannot be removed is found at the next start. */
	if (!r)
		uploads_file_remove_others(uploads, file, true);
	pthread_mutex_lock(&uploads->lock);
	if (r >= 0) {
		file->used_ns = time_now_ns();
		uploads_file_add(uploads, file, true);
		release(uploads, upload);
		uploads->stats.finished++;
	}
	pthread_mutex_unlock(&uploads->lock);
	pthread_mutex_unlock(&uploads->place_lock);
	return r;
}

/* By what it is going to be found. An id whose type nobody has said is what the file says it is. */
static int read_ids(int fd, const struct upload_begin *begin, struct upload_file *file, struct file_ids *ret, struct error *err)
{
	*ret = (struct file_ids){0};
	if (begin->kind != UPLOAD_DEBUGINFO && begin->kind != UPLOAD_EXECUTABLE)
		return 0;
	int r = file_ids_read_fd(fd, ret, err);
	if (r < 0)
		return r;
	if (begin->without_build_id && begin->id_type == FILE_ID_GNU)
		file->id_type = strcmp(ret->ids[FILE_ID_GNU], begin->build_id) == 0  ? FILE_ID_GNU
				: strcmp(ret->ids[FILE_ID_GO], begin->build_id) == 0 ? FILE_ID_GO
										     : FILE_ID_HASH;
	return uploads_alias_set(file, ret, err);
}

/* -EBADMSG is about the file, everything else about this machine. Positive: it is there, but a power cut may lose it. */
static int put_in_place(struct uploads *uploads, struct upload *upload, struct upload_file *file, struct file_ids *ret_ids,
			struct error *err)
{
	char path[PATH_MAX], folder[PATH_MAX], id[UPLOAD_ID_MAX];
	memcpy(id, upload->id, sizeof(id));
	_cleanup_(fd_closep) int fd = open_part(uploads, upload->id, err);
	if (fd < 0)
		return fd;
	int r = io_truncate(fd, upload->begin.size, "the uploaded file", err); /* a failed write may have left more */
	if (!r)
		r = upload_check(fd, &upload->begin, err);
	if (!r)
		r = upload_content(fd, file->content, err);
	if (!r)
		r = read_ids(fd, &upload->begin, file, ret_ids, err);
	if (!r)
		r = uploads_file_path(uploads, file, path, err);
	if (!r && *upload->begin.hash) /* only to know it again: goes without where attributes are not to be had */
		fsetxattr(fd, UPLOADS_HASH_ATTRIBUTE, upload->begin.hash, strlen(upload->begin.hash), 0);
	if (!r)
		r = sync_part(uploads, fd, upload->id, upload->offset, err);
	if (r < 0)
		return r;
	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
	r = io_make_dirs(folder, 0750, err);
	if (!r)
		r = uploads_sync_dirs(uploads->options.directory, folder, err);
	if (!r)
		r = move_in_place(uploads, upload, path, file, err);
	if (r < 0)
		return r;
	/* It is there. Should the directory not be synced, a power cut may lose it, and then it is wanted again. */
	remove_part(uploads, id);
	uploads_make_room(uploads, NULL);
	return r;
}

static int being_written(struct error *err)
{
	return error_set(err, -EBUSY, "another part of this upload is in progress");
}

/* Returns what to tell the client; *ret_there: the file is in its place. */
static int finish_locked(struct uploads *uploads, struct upload *upload, bool *ret_there, struct file_ids *ret_ids,
			 struct error *err)
{
	struct error problem = {0};
	const struct upload_begin *begin = &upload->begin;
	/* Its content is not known yet. */
	const struct upload_place place = {.tenant = begin->tenant,
					   .id_type = begin->id_type == FILE_ID_GNU && begin->without_build_id ? FILE_ID_HASH
													       : begin->id_type,
					   .build_id = begin->build_id,
					   .content = "",
					   .content_key = begin->content_key,
					   .kind = begin->kind};
	if (upload->busy)
		return being_written(err);
	if (upload->offset != upload->begin.size)
		return error_set(err, -ERANGE, "%llu of %llu bytes have arrived", (unsigned long long)upload->offset,
				 (unsigned long long)upload->begin.size);
	struct upload_file *file = uploads_file_new(&place, begin->size);
	if (!file)
		return error_nomem(err);
	upload->busy = true;
	pthread_mutex_unlock(&uploads->lock);
	int r = put_in_place(uploads, upload, file, ret_ids, &problem);
	pthread_mutex_lock(&uploads->lock);
	*ret_there = r >= 0;
	if (r < 0) {
		uploads_file_free(file);
		upload->busy = false;
		upload->active_ns = time_now_ns();
		if (r == -EBADMSG)
			fail_and_drop(uploads, upload);
	}
	return r != 0 ? error_set(err, r > 0 ? problem.code : r, "%s", problem.message) : 0;
}

int uploads_finish(struct uploads *uploads, const char *id, struct error *err)
{
	char build_id[BUILD_ID_HEX_MAX] = "", tenant[UPLOAD_TENANT_MAX + 1] = "";
	struct file_ids ids = {0};
	enum upload_kind kind = 0;
	bool there = false;
	pthread_mutex_lock(&uploads->lock);
	struct upload *upload = find_open(uploads, id);
	if (upload) {
		snprintf(build_id, sizeof(build_id), "%s", upload->begin.build_id);
		snprintf(tenant, sizeof(tenant), "%s", upload->begin.tenant);
		kind = upload->begin.kind;
	}
	int r = upload ? finish_locked(uploads, upload, &there, &ids, err) : unknown_id(err);
	unlock_and_remove(uploads);
	if (!there || !uploads->options.on_arrival)
		return r;
	for (unsigned i = 0; i < FILE_ID_TYPES; i++)
		if (ids.ids[i][0] && strcmp(ids.ids[i], build_id) != 0)
			uploads->options.on_arrival(uploads->options.context, tenant, ids.ids[i], kind);
	uploads->options.on_arrival(uploads->options.context, tenant, build_id, kind);
	return r;
}

int uploads_abort(struct uploads *uploads, const char *id, struct error *err)
{
	pthread_mutex_lock(&uploads->lock);
	struct upload *upload = find_open(uploads, id);
	int r = !upload ? unknown_id(err) : upload->busy ? being_written(err) : 0;
	if (!r)
		fail_and_drop(uploads, upload);
	unlock_and_remove(uploads);
	return r;
}

int uploads_get(struct uploads *uploads, const char *id, struct upload_begin *ret, uint64_t *ret_offset, struct error *err)
{
	pthread_mutex_lock(&uploads->lock);
	const struct upload *upload = find_open(uploads, id);
	if (upload) {
		*ret = upload->begin;
		*ret_offset = upload->offset;
	}
	pthread_mutex_unlock(&uploads->lock);
	return upload ? 0 : unknown_id(err);
}

/* ---- what is there ---- */

bool uploads_has(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind)
{
	pthread_mutex_lock(&uploads->lock);
	bool has = uploads_find(uploads, scope, build_id, kind);
	pthread_mutex_unlock(&uploads->lock);
	return has;
}

bool uploads_has_content(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id,
			 enum upload_kind kind, const char *content_key)
{
	pthread_mutex_lock(&uploads->lock);
	const struct upload_file *file = uploads_find(uploads, scope, build_id, kind);
	bool has = file && uploads_file_find_content(uploads, file->tenant, build_id, kind, content_key);
	pthread_mutex_unlock(&uploads->lock);
	return has;
}

/* Its path, for somebody who is going to use it. */
static int use_file(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind,
		    char path[static PATH_MAX], bool *ret_is_build_id, struct error *err)
{
	int r;
	pthread_mutex_lock(&uploads->lock);
	struct upload_file *file = uploads_find(uploads, scope, build_id, kind);
	if (file) {
		*ret_is_build_id = uploads_file_has_build_id(file, build_id);
		r = uploads_file_path(uploads, file, path, err);
		uploads_file_use(uploads, file, time_now_ns());
	} else {
		r = error_set(err, -ENOENT, "no upload of %s for build-id %.128s",
			      kind < UPLOAD_KINDS ? upload_kind_names[kind] : "that", build_id);
	}
	pthread_mutex_unlock(&uploads->lock);
	return r;
}

int uploads_open_file(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind,
		      int *ret_fd, struct error *err)
{
	char path[PATH_MAX];
	bool is_build_id = false;
	int r = use_file(uploads, scope, build_id, kind, path, &is_build_id, err);
	int fd = r < 0 ? r : io_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
	if (!r && fd == -ENOENT)
		uploads_file_forget_lost(uploads, scope, build_id, kind);
	if (fd < 0)
		return fd;
	futimens(fd, NULL); /* it only orders; what cannot be set is ordered by its arrival */
	*ret_fd = fd;
	return !is_build_id;
}

bool uploads_has_same(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind,
		      const char *hash)
{
	char path[PATH_MAX], known[sizeof(((struct upload_begin *)0)->hash)];
	pthread_mutex_lock(&uploads->lock);
	const struct upload_file *file = uploads_find(uploads, scope, build_id, kind);
	bool there = file && uploads_file_path(uploads, file, path, NULL) == 0;
	pthread_mutex_unlock(&uploads->lock);
	ssize_t len = there && *hash ? lgetxattr(path, UPLOADS_HASH_ATTRIBUTE, known, sizeof(known)) : -1;
	return len > 0 && (size_t)len == strlen(hash) && memcmp(known, hash, (size_t)len) == 0;
}

/* 0 nobody, 1 somebody who is at it, 2 somebody who has stopped. */
static int who_sends(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind,
		     const char *content_key)
{
	int64_t now_ns = time_now_ns();
	const struct upload *upload = NULL;
	const char *tenant;
	size_t at = 0;
	pthread_mutex_lock(&uploads->lock);
	while (!upload && (tenant = uploads_scope_next(scope, &at)))
		upload = find_open_file(uploads, tenant, build_id, kind, content_key);
	int who = !upload ? 0 : is_active(upload, uploads->options.lease_ns, now_ns) ? 1 : 2;
	pthread_mutex_unlock(&uploads->lock);
	return who;
}

bool uploads_is_coming(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind,
		       const char *content_key)
{
	return who_sends(uploads, scope, build_id, kind, content_key) == 1;
}

bool uploads_is_stale(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id, enum upload_kind kind)
{
	return who_sends(uploads, scope, build_id, kind, NULL) == 2;
}

void uploads_get_stats(struct uploads *uploads, struct uploads_stats *ret)
{
	pthread_mutex_lock(&uploads->lock);
	*ret = uploads->stats;
	pthread_mutex_unlock(&uploads->lock);
}

void uploads_get_tenant_stats(struct uploads *uploads, const char *tenant, struct uploads_stats *ret)
{
	*ret = (struct uploads_stats){0};
	pthread_mutex_lock(&uploads->lock);
	for (const struct upload_file *file = uploads->newest; file; file = file->older) {
		bool is_of = strcmp(file->tenant, tenant) == 0;
		ret->files += is_of;
		ret->bytes += is_of ? file->size : 0;
	}
	ret->open = count_open(uploads, tenant);
	pthread_mutex_unlock(&uploads->lock);
}

/* ---- start and end ---- */

static bool is_id(const char *text, size_t len)
{
	return len == 32 && strspn(text, "0123456789abcdef") >= 32;
}

/* Notices the part that a note speaks of. A note that makes no sense, or has no room, is removed with its part. */
static int restore(struct uploads *uploads, const char *id, int64_t now_ns, struct error *err)
{
	char path[PATH_MAX];
	struct note note = {0};
	struct upload upload = {.used = true, .restored = true};
	struct stat info;
	incoming_path(uploads, id, "note", path);
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
	if (fd < 0)
		return fd;
	ssize_t len = io_pread(fd, &note, sizeof(note), 0, path, err);
	if (len < 0)
		return (int)len;
	incoming_path(uploads, id, "part", path);
	struct upload *place = free_place(uploads, now_ns);
	if (!note_parse(&note, (size_t)len, &upload.begin, &upload.synced) || !place || lstat(path, &info) < 0 ||
	    !S_ISREG(info.st_mode) || (uint64_t)info.st_size < upload.synced || upload.synced > upload.begin.size ||
	    find_open_file(uploads, upload.begin.tenant, upload.begin.build_id, upload.begin.kind, upload.begin.content_key)) {
		remove_part(uploads, id);
		return 0;
	}
	snprintf(upload.id, sizeof(upload.id), "%s", id);
	upload.offset = upload.synced;
	upload.active_ns = time_of_timespec(info.st_mtim);
	/* Of an older version: what is acknowledged from now on has to find its place in it. */
	if ((size_t)len != sizeof(note) && write_note(uploads, id, &upload.begin, NULL) == 0)
		note_offset(uploads, id, upload.synced, NULL);
	*place = upload;
	uploads->part_bytes += upload.offset;
	uploads->stats.open++;
	return 0;
}

/* A part without a note is of an upload that had ended or not begun; other names are left by a crash of io_write_file(). */
static void sweep(struct uploads *uploads, const char *name)
{
	char id[33], path[PATH_MAX];
	snprintf(id, sizeof(id), "%.32s", name);
	if (is_id(id, strlen(id)) && find_open(uploads, id))
		return;
	if ((text_ends_with(name, ".part") || text_ends_with(name, ".tmp")) &&
	    io_join_path(path, sizeof(path), uploads->incoming, name) == 0)
		io_unlink(path, NULL);
}

static int load_incoming(struct uploads *uploads, struct error *err)
{
	int64_t now_ns = time_now_ns();
	_cleanup_(dir_closep) DIR *dir = opendir(uploads->incoming);
	if (!dir)
		return error_set_errno(err, -errno, "cannot read %s", uploads->incoming);
	const struct dirent *entry;
	int r = 0;
	while (!r && (entry = readdir(dir))) {
		char id[33];
		if (!is_id(entry->d_name, strcspn(entry->d_name, ".")) || strcmp(entry->d_name + 32, ".note") != 0)
			continue;
		snprintf(id, sizeof(id), "%.32s", entry->d_name);
		r = restore(uploads, id, now_ns, err);
	}
	rewinddir(dir);
	while (!r && (entry = readdir(dir)))
		sweep(uploads, entry->d_name);
	return r;
}

static void set_defaults(struct uploads_options *options)
{
	if (!options->bytes_max)
		options->bytes_max = BYTES_MAX_DEFAULT;
	if (!options->file_bytes_max)
		options->file_bytes_max = FILE_BYTES_MAX_DEFAULT;
	if (!options->lease_ns)
		options->lease_ns = LEASE_NS_DEFAULT;
	if (!options->open_max)
		options->open_max = OPEN_MAX_DEFAULT;
}

/* Room for "/incoming/", an id, ".part", and for "/files/", a tenant, a type, a build-id, a content, a key and a kind. */
#define NAMES_BYTES_MAX (UPLOAD_TENANT_MAX + BUILD_ID_HEX_MAX + UPLOAD_CONTENT_HEX + CONTENT_KEY_HEX + 64)

int uploads_open(const struct uploads_options *options, struct uploads **ret, struct error *err)
{
	char incoming[PATH_MAX];
	if (strlen(options->directory) + NAMES_BYTES_MAX > sizeof(incoming) ||
	    io_join_path(incoming, sizeof(incoming), options->directory, "incoming") < 0)
		return error_set(err, -ENAMETOOLONG, "the path of the directory for uploads is too long");
	_cleanup_(uploads_closep) struct uploads *uploads = mem_zalloc(sizeof(*uploads));
	if (!uploads)
		return error_nomem(err);
	pthread_mutex_init(&uploads->place_lock, NULL);
	pthread_mutex_init(&uploads->lock, NULL);
	uploads->options = *options;
	set_defaults(&uploads->options);
	uploads->options.directory = mem_strdup(options->directory);
	uploads->incoming = mem_strdup(incoming);
	uploads->open = mem_zalloc_array(uploads->options.open_max, sizeof(*uploads->open));
	uploads->pending_removals = mem_zalloc_array(uploads->options.open_max, sizeof(*uploads->pending_removals));
	if (!uploads->options.directory || !uploads->incoming || !uploads->open || !uploads->pending_removals)
		return error_nomem(err);
	int r = io_make_dirs(incoming, 0750, err);
	if (!r)
		r = uploads_files_load(uploads, err);
	if (!r)
		r = load_incoming(uploads, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&uploads->lock);
	unlock_and_remove(uploads);
	uploads_make_room(uploads, NULL); /* what cannot be removed now is tried again later */
	*ret = TAKE(uploads);
	return 0;
}

/* An orderly end: nothing that has arrived needs to be sent twice. */
static void keep_part(const struct uploads *uploads, const struct upload *upload)
{
	if (!upload->used || upload->offset == upload->synced)
		return;
	_cleanup_(fd_closep) int fd = open_part(uploads, upload->id, NULL);
	if (fd >= 0)
		sync_part(uploads, fd, upload->id, upload->offset, NULL);
}

struct uploads *uploads_close(struct uploads *uploads)
{
	if (!uploads)
		return NULL;
	for (size_t i = 0; uploads->open && i < uploads->options.open_max; i++)
		keep_part(uploads, &uploads->open[i]);
	uploads_files_release(uploads);
	pthread_mutex_destroy(&uploads->lock);
	pthread_mutex_destroy(&uploads->place_lock);
	mem_free(uploads->pending_removals);
	mem_free(uploads->open);
	mem_free(uploads->incoming);
	mem_free((char *)uploads->options.directory);
	return mem_free(uploads);
}
