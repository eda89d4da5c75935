/* SPDX-License-Identifier: Apache-2.0 */
#include "export/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/order.h"
#include "base/thread.h"
#include "base/time.h"

const char *const spool_loss_names[SPOOL_LOSSES] = {"full", "old", "damaged", "ended"};

struct record {
	struct record *next;
	uint64_t number, bytes;
	int64_t expires_ns;	 /* monotonic */
	struct spool_meta *meta; /* NULL for those that were found: it is in the file */
	uint64_t samples;
	uint32_t profiles;
	bool on_disk;
	struct buffer payload; /* in memory, unless on disk */
};

struct spool {
	pthread_mutex_t lock;
	pthread_cond_t arrived;
	struct spool_options options;
	char *directory; /* NULL = none */
	int lock_fd;
	struct record *first, *last;
	uint64_t next_number;
	bool front_open; /* the first record is being delivered */
	bool front_gone; /* and had to make room meanwhile: lost, unless it has arrived */
	uint64_t gone_profiles, gone_samples;
	bool closed;
	struct spool_stats stats;
};

/* ---- records; all with the lock held ---- */

static void count_waiting(struct spool *spool, const struct record *record, int sign)
{
	uint64_t n = (uint64_t)(int64_t)sign;
	spool->stats.records += n;
	spool->stats.profiles += n * record->profiles;
	spool->stats.samples += n * record->samples;
	spool->stats.bytes += n * record->bytes;
	spool->stats.memory_bytes += record->on_disk ? 0 : n * record->bytes;
}

static void count_lost(struct spool *spool, enum spool_loss why, uint64_t profiles, uint64_t samples)
{
	spool->stats.lost[why].records++;
	spool->stats.lost[why].profiles += profiles;
	spool->stats.lost[why].samples += samples;
}

static void record_free(struct record *record)
{
	buffer_release(&record->payload);
	mem_free(record->meta);
	mem_free(record);
}

static void unlink_file(const struct spool *spool, const struct record *record)
{
	char path[SPOOL_PATH_MAX];
	if (record->on_disk && spool_file_path(path, spool->directory, record->number) == 0)
		io_unlink(path, NULL);
}

static void append(struct spool *spool, struct record *record)
{
	if (spool->last)
		spool->last->next = record;
	else
		spool->first = record;
	spool->last = record;
	count_waiting(spool, record, 1);
}

/* Takes the record behind `before` (NULL: the first) off the list. */
static struct record *take(struct spool *spool, struct record *before)
{
	struct record *record = before ? before->next : spool->first;
	if (before)
		before->next = record->next;
	else
		spool->first = record->next;
	if (spool->last == record)
		spool->last = before;
	count_waiting(spool, record, -1);
	return record;
}

/* The one being delivered leaves the disk as well; spool_done() decides whether it is lost. */
static void lose_first(struct spool *spool, enum spool_loss why)
{
	struct record *record = take(spool, NULL);
	unlink_file(spool, record);
	if (spool->front_open && !spool->front_gone) {
		spool->front_gone = true;
		spool->gone_profiles = record->profiles;
		spool->gone_samples = record->samples;
	} else {
		count_lost(spool, why, record->profiles, record->samples);
	}
	record_free(record);
}

static void lose_old(struct spool *spool)
{
	int64_t now_ns = time_monotonic_ns();
	while (spool->first && spool->first->expires_ns <= now_ns && !(spool->front_open && !spool->front_gone))
		lose_first(spool, SPOOL_LOST_OLD);
}

/* ---- what is there at the start ---- */

static int compare_numbers(const void *left, const void *right)
{
	return ORDER(*(const uint64_t *)left, *(const uint64_t *)right);
}

static int list_files(struct spool *spool, uint64_t **ret, size_t *ret_count, struct error *err)
{
	_cleanup_(mem_freep) uint64_t *numbers = NULL;
	size_t count = 0, capacity = 0;
	_cleanup_(dir_closep) DIR *directory = opendir(spool->directory);
	if (!directory)
		return error_set_errno(err, -errno, "cannot read the spool %s", spool->directory);
	int r = 0;
	for (const struct dirent *entry; r == 0 && (entry = readdir(directory));) {
		char path[SPOOL_PATH_MAX];
		uint64_t number;
		if (spool_file_is_temporary(entry->d_name) &&
		    io_join_path(path, sizeof(path), spool->directory, entry->d_name) == 0)
			io_unlink(path, NULL);
		if (!spool_file_number(entry->d_name, &number))
			continue;
		r = array_reserve(&numbers, &capacity, count + 1, SIZE_MAX);
		if (r == 0)
			numbers[count++] = number;
	}
	if (r < 0)
		return error_nomem(err);
	sort_array(numbers, count, compare_numbers);
	*ret = TAKE(numbers);
	*ret_count = count;
	return 0;
}

static void set_aside(struct spool *spool, const char *path, uint64_t profiles, uint64_t samples, const struct error *why)
{
	snprintf(spool->stats.damage, sizeof(spool->stats.damage), "%.200s: %.300s", path, why->message);
	count_lost(spool, SPOOL_LOST_DAMAGED, profiles, samples);
	spool_file_set_aside(spool->directory, path);
}

static int64_t expiry(const struct spool *spool, int64_t created_ns)
{
	int64_t age_ns = time_now_ns() - created_ns;
	if (age_ns < 0) /* the clock was set back */
		age_ns = 0;
	if (age_ns > spool->options.age_max_ns)
		age_ns = spool->options.age_max_ns;
	return time_monotonic_ns() + spool->options.age_max_ns - age_ns;
}

static int read_header(const char *path, struct spool_meta *ret, uint64_t *ret_size, struct error *err)
{
	uint8_t header[SPOOL_HEADER_BYTES];
	size_t tenant_len;
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
	int r = fd < 0 ? fd : io_file_size(fd, ret_size, path, err);
	ssize_t n = r < 0 ? r : io_pread(fd, header, sizeof(header), 0, path, err);
	if (n < 0)
		return (int)n;
	return spool_record_check((struct bytes){header, (size_t)n}, *ret_size, ret, &tenant_len, err);
}

static int find_record(struct spool *spool, uint64_t number, struct error *err)
{
	char path[SPOOL_PATH_MAX];
	struct spool_meta meta;
	struct error why = {0};
	uint64_t size;
	int r = spool_file_path(path, spool->directory, number);
	if (r == 0)
		r = read_header(path, &meta, &size, &why);
	/* What cannot be opened now is not damaged. */
	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EACCES)
		return error_set(err, r, "%s", why.message);
	if (r < 0) {
		set_aside(spool, path, 0, 0, &why);
		return 0;
	}
	struct record *record = mem_zalloc(sizeof(*record));
	if (!record)
		return error_nomem(err);
	record->number = number;
	record->bytes = size;
	record->samples = meta.samples;
	record->profiles = meta.profiles;
	record->on_disk = true;
	record->expires_ns = expiry(spool, meta.created_ns);
	append(spool, record);
	spool->stats.found++;
	return 0;
}

static int open_directory(struct spool *spool, struct error *err)
{
	char path[SPOOL_PATH_MAX];
	_cleanup_(mem_freep) uint64_t *numbers = NULL;
	size_t count = 0;
	int r = io_make_dirs(spool->directory, 0700, err);
	if (r == 0 && io_join_path(path, sizeof(path), spool->directory, "lock") < 0)
		r = error_set(err, -ENAMETOOLONG, "the path of the spool %.200s is too long", spool->directory);
	if (r < 0)
		return r;
	spool->lock_fd = io_lock_file(path, err);
	if (spool->lock_fd < 0)
		return spool->lock_fd;
	r = list_files(spool, &numbers, &count, err);
	for (size_t i = 0; i < count && r == 0; i++)
		r = find_record(spool, numbers[i], err);
	if (count)
		spool->next_number = numbers[count - 1] + 1;
	while (spool->first && (spool->stats.bytes > spool->options.bytes_max || spool->stats.records > SPOOL_RECORDS_MAX))
		lose_first(spool, SPOOL_LOST_FULL);
	lose_old(spool);
	return r;
}

int spool_new(const struct spool_options *options, struct spool **ret, struct error *err)
{
	_cleanup_(spool_freep) struct spool *spool = mem_zalloc(sizeof(*spool));
	if (!spool)
		return error_nomem(err);
	spool->lock_fd = -1;
	spool->options = *options;
	if (!spool->options.bytes_max)
		spool->options.bytes_max = SPOOL_BYTES_DEFAULT;
	if (!spool->options.memory_max)
		spool->options.memory_max = SPOOL_MEMORY_BYTES_DEFAULT;
	if (!spool->options.age_max_ns)
		spool->options.age_max_ns = SPOOL_AGE_DEFAULT_NS;
	pthread_mutex_init(&spool->lock, NULL);
	thread_condition_init(&spool->arrived);
	if (options->directory) {
		spool->directory = mem_strdup(options->directory);
		int r = spool->directory ? open_directory(spool, err) : error_nomem(err);
		if (r < 0)
			return r;
	}
	*ret = TAKE(spool);
	return 0;
}

struct spool *spool_free(struct spool *spool)
{
	if (!spool)
		return NULL;
	while (spool->first)
		record_free(take(spool, NULL));
	io_close(spool->lock_fd);
	mem_free(spool->directory);
	pthread_cond_destroy(&spool->arrived);
	pthread_mutex_destroy(&spool->lock);
	return mem_free(spool);
}

/* ---- in ---- */

static bool disk_has_room(const struct spool *spool, uint64_t bytes)
{
	struct statvfs info;
	if (statvfs(spool->directory, &info) < 0)
		return true; /* writing will tell */
	uint64_t least = (uint64_t)info.f_blocks * info.f_frsize / 20;
	if (least > GIB)
		least = GIB;
	if (spool->options.disk_free_min != UINT64_MAX)
		least = spool->options.disk_free_min;
	return (uint64_t)info.f_bavail * info.f_frsize >= least + bytes;
}

static int write_file(struct spool *spool, struct record *record, const struct spool_meta *meta, struct bytes payload,
		      const char *same, struct error *err)
{
	char path[SPOOL_PATH_MAX];
	int r = spool_file_path(path, spool->directory, record->number);
	if (r < 0)
		return error_set(err, r, "the path of the spool is too long");
	if (!disk_has_room(spool, record->bytes))
		return error_set(err, -ENOSPC, "%s: the disk is nearly full", spool->directory);
	return spool_file_write(path, meta, payload, same, spool->options.sync, err);
}

/* Old records on disk make room when the bound is reached. Not when the disk is full: others would take what they leave. */
static int put_on_disk(struct spool *spool, struct record *record, const struct spool_meta *meta, struct bytes payload,
		       const char *same, struct error *err)
{
	int r;
	if (record->bytes > spool->options.bytes_max)
		return error_set(err, -E2BIG, "a profile of %llu bytes is larger than the spool",
				 (unsigned long long)record->bytes);
	while (spool->first && (spool->stats.bytes - spool->stats.memory_bytes + record->bytes > spool->options.bytes_max ||
				spool->stats.records >= SPOOL_RECORDS_MAX))
		lose_first(spool, SPOOL_LOST_FULL);
	r = write_file(spool, record, meta, payload, same, err);
	if (r < 0) {
		spool->stats.write_failures++;
		snprintf(spool->stats.problem, sizeof(spool->stats.problem), "%s", err->message);
		return r;
	}
	spool->stats.problem[0] = '\0';
	record->on_disk = true;
	return 0;
}

/* Those in memory, wherever they stand, the oldest first, until these hold `bytes_max` at most. */
static void lose_memory(struct spool *spool, uint64_t bytes_max, enum spool_loss why)
{
	struct record *before = NULL, *at;
	while (spool->stats.memory_bytes > bytes_max && (at = before ? before->next : spool->first)) {
		if (at->on_disk) {
			before = at;
		} else if (!before) {
			lose_first(spool, why);
		} else {
			at = take(spool, before);
			count_lost(spool, why, at->profiles, at->samples);
			record_free(at);
		}
	}
}

static int put_in_memory(struct spool *spool, struct record *record, const struct spool_meta *meta, struct bytes payload,
			 struct error *err)
{
	if (record->bytes > spool->options.memory_max)
		return error_set(err, -E2BIG, "a profile of %llu bytes is larger than the memory queue",
				 (unsigned long long)record->bytes);
	lose_memory(spool, spool->options.memory_max - record->bytes, SPOOL_LOST_FULL);
	record->meta = mem_alloc(sizeof(*meta));
	buffer_init(&record->payload, payload.len);
	if (!record->meta || buffer_append(&record->payload, payload.data, payload.len) < 0)
		return error_nomem(err);
	*record->meta = *meta;
	return 0;
}

int spool_push(struct spool *spool, const struct spool_meta *meta, struct bytes payload, const char *same,
	       char ret_path[SPOOL_PATH_MAX], struct error *err)
{
	struct error why = {0};
	struct record *record = mem_zalloc(sizeof(*record));
	if (ret_path)
		ret_path[0] = '\0';
	pthread_mutex_lock(&spool->lock);
	int r = !record ? error_nomem(&why) : spool->closed ? error_set(&why, -EPIPE, "the spool is closed") : 0;
	if (r == 0) {
		lose_old(spool);
		record->number = spool->next_number++;
		record->bytes = SPOOL_HEADER_BYTES + strlen(meta->tenant) + payload.len;
		record->samples = meta->samples;
		record->profiles = meta->profiles;
		record->expires_ns = expiry(spool, meta->created_ns);
		if (!spool->directory || put_on_disk(spool, record, meta, payload, same, &why) < 0)
			r = put_in_memory(spool, record, meta, payload, &why);
	}
	if (r == 0) {
		append(spool, record);
		if (record->on_disk && ret_path)
			spool_file_path(ret_path, spool->directory, record->number);
		pthread_cond_signal(&spool->arrived);
	} else {
		count_lost(spool, SPOOL_LOST_FULL, meta->profiles, meta->samples);
	}
	pthread_mutex_unlock(&spool->lock);
	if (r == 0)
		return 0;
	if (record)
		record_free(record);
	return error_set(err, r, "a profile was dropped: %.400s", why.message);
}

void spool_lose(struct spool *spool, const struct spool_meta *meta)
{
	THREAD_LOCK_SCOPE(&spool->lock);
	count_lost(spool, SPOOL_LOST_FULL, meta->profiles, meta->samples);
}

/* ---- out ---- */

/* -EBADMSG: the file is damaged, and set aside. */
static int read_front(struct spool *spool, struct spool_meta *ret_meta, struct buffer *ret, struct error *err)
{
	struct record *record = spool->first;
	if (!record->on_disk) {
		*ret_meta = *record->meta;
		return buffer_append(ret, record->payload.data, record->payload.len) < 0 ? error_nomem(err) : 0;
	}
	char path[SPOOL_PATH_MAX];
	struct bytes payload;
	struct error why = {0};
	_cleanup_(buffer_release) struct buffer file = {0};
	int r = spool_file_path(path, spool->directory, record->number);
	if (r == 0)
		r = io_read_file(path, SPOOL_FILE_BYTES_MAX, &file, &why);
	if (r == 0)
		r = spool_record_parse(buffer_bytes(&file), ret_meta, &payload, &why);
	if (r == 0)
		return buffer_append(ret, payload.data, payload.len) < 0 ? error_nomem(err) : 0;
	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		return error_set(err, -ENOMEM, "%s", why.message);
	take(spool, NULL);
	set_aside(spool, path, record->profiles, record->samples, &why);
	record_free(record);
	return -EBADMSG;
}

int spool_front(struct spool *spool, int64_t timeout_ns, struct spool_meta *ret_meta, struct buffer *ret, struct error *err)
{
	int64_t deadline_ns = time_monotonic_ns() + timeout_ns;
	int r = 0;
	THREAD_LOCK_SCOPE(&spool->lock);
	lose_old(spool);
	do {
		while (!spool->first && !spool->closed)
			if (!thread_wait_until(&spool->arrived, &spool->lock, deadline_ns))
				break;
		r = spool->first ? read_front(spool, ret_meta, ret, err) : 0;
	} while (r == -EBADMSG);
	if (spool->first && r == 0) {
		spool->front_open = true;
		spool->front_gone = false;
		r = 1;
	}
	return r;
}

void spool_done(struct spool *spool, bool delivered)
{
	THREAD_LOCK_SCOPE(&spool->lock);
	if (spool->front_open && spool->front_gone && !delivered)
		count_lost(spool, SPOOL_LOST_FULL, spool->gone_profiles, spool->gone_samples);
	if (spool->front_open && !spool->front_gone && delivered) {
		struct record *record = take(spool, NULL);
		unlink_file(spool, record);
		record_free(record);
	}
	spool->front_open = spool->front_gone = false;
}

void spool_close(struct spool *spool)
{
	THREAD_LOCK_SCOPE(&spool->lock);
	spool->closed = true;
	pthread_cond_broadcast(&spool->arrived);
}

bool spool_is_over(struct spool *spool)
{
	THREAD_LOCK_SCOPE(&spool->lock);
	return spool->closed && !spool->first;
}

void spool_drop_memory(struct spool *spool)
{
	THREAD_LOCK_SCOPE(&spool->lock);
	lose_memory(spool, 0, SPOOL_LOST_ENDED);
}

void spool_get_stats(struct spool *spool, struct spool_stats *ret)
{
	THREAD_LOCK_SCOPE(&spool->lock);
	*ret = spool->stats;
}
