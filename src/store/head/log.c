/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log's format, writing and replay.
 *
 *   segment   header, header again (80 bytes)
 *             record...
 *   header    magic "WICKLOG\n"   u32 version   u32 0   u64 salt   u64 first sequence   u64 hash of the 32 bytes before
 *   record    u32 magic "WREC"   u32 stored length   u32 raw length   u32 0
 *             u64 sequence   u64 hash of the stored payload   u64 hash of the 32 bytes before   (40 bytes)
 *             payload, zstd if the raw length is not 0
 *
 * All little-endian. Hashes are XXH3-64; those of records are seeded with the segment's salt, a random number, so that a record
 * that somebody hides inside a profile is not taken for one when the reader has to search. Without the salt nothing verifies,
 * so the header is there twice.
 *
 * Sequences rise by one with each record through all segments and never start again. A block's metadata says up to which
 * sequence it holds the log, so replay after a crash between publishing a block and removing its segments stores nothing twice.
 *
 * Why a header of its own for each record, with its own hash: when a payload is damaged, its length can still be trusted and
 * the next record is found at once; when the header is damaged, the magic is searched for, and the hash distinguishes a header
 * from bytes that look like one.
 *
 * What is damaged and what is torn. A write that a crash cut short leaves less than a record, or zeros where the file system
 * had grown the file and not yet written it, at the end of the last segment. That was never acknowledged: the acknowledgement
 * comes after the sync. The last segment is the last one with a header: the next one is made early, and gets its header when
 * the one before it is synced for good. Everything else that does not verify was perhaps acknowledged; it is copied to the
 * quarantine and named, and replay goes on behind it.
 *
 * Hashes of 64 bits also tell when bytes are right again, so one flipped bit of a record is found by trying each: a header at
 * once, a payload up to CORRECTED_MAX bytes. It is read as it was, and reported.
 */
#include "store/head/log.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/time.h"
#include "store/head/record.h"

#define SEGMENT_MAGIC	 "WICKLOG\n"
#define RECORD_MAGIC	 0x43455257u /* "WREC" */
#define LOG_COMPRESSION	 -3
#define COMPRESS_MIN	 256 /* shorter payloads are not worth it */
#define SEGMENTS_MAX	 1000000
#define SEARCH_WINDOW	 (1024 * 1024)
#define PROBLEM_TEXT_MAX 1024
#define CORRECTED_MAX	 (16 * 1024) /* longer payloads take too long to try: more than a tenth of a second */

struct record_header {
	uint32_t magic, stored_len, raw_len, reserved;
	uint64_t sequence, payload_hash, header_hash;
};
_Static_assert(sizeof(struct record_header) == LOG_RECORD_HEADER_SIZE, "the struct is the format");
struct segment_header {
	char magic[8];
	uint32_t version, reserved;
	uint64_t salt, first_sequence, hash;
};
_Static_assert(2 * sizeof(struct segment_header) == LOG_SEGMENT_HEADER_SIZE, "the struct is the format");

static uint64_t hash_header(const struct record_header *header, uint64_t salt)
{
	return hash64_seed(header, offsetof(struct record_header, header_hash), salt);
}

static int segment_path(const char *directory, uint64_t number, char out[PATH_MAX])
{
	char name[40];
	snprintf(name, sizeof(name), "%08" PRIu64 ".log", number);
	return io_join_path(out, PATH_MAX, directory, name);
}

/* ---- writing ---- */

int log_segment_create(const char *directory, uint64_t number, struct log_segment *ret, struct error *err)
{
	char path[PATH_MAX];
	struct log_segment segment = {.fd = -1, .number = number};
	int r = segment_path(directory, number, path);
	if (r < 0)
		return error_set_errno(err, r, "log in %s", directory);
	if (getrandom(&segment.salt, sizeof(segment.salt), 0) != sizeof(segment.salt))
		return error_set_errno(err, -errno, "cannot get a random number for %s", path);
	segment.path = mem_strdup(path);
	if (!segment.path)
		return error_nomem(err);
	/* One that is there already is a failed attempt's; it has no records. */
	segment.fd = io_open(path, O_RDWR | O_CREAT | O_TRUNC, 0640, err);
	if (segment.fd < 0) {
		r = segment.fd;
		log_segment_close(&segment);
		return r;
	}
	r = io_sync_dir(directory, err);
	if (r < 0) {
		log_segment_close(&segment);
		io_unlink(path, NULL);
		return r;
	}
	*ret = segment;
	return 0;
}

int log_segment_begin(struct log_segment *segment, uint64_t first_sequence, struct error *err)
{
	struct segment_header header = {.version = LOG_VERSION, .salt = segment->salt, .first_sequence = first_sequence};
	memcpy(header.magic, SEGMENT_MAGIC, sizeof(header.magic));
	header.hash = hash64(&header, offsetof(struct segment_header, hash));
	const struct segment_header both[] = {header, header};
	int r = io_pwrite(segment->fd, both, sizeof(both), 0, segment->path, err);
	if (r == 0)
		segment->offset = sizeof(both);
	return r;
}

int log_record_put(const struct log_segment *segment, uint64_t sequence, struct bytes payload, size_t raw_len,
		   struct buffer *out, struct error *err)
{
	assert(payload.len <= RECORD_BYTES_MAX && raw_len <= RECORD_BYTES_MAX);
	struct record_header header = {
		.magic = RECORD_MAGIC,
		.stored_len = (uint32_t)payload.len,
		.raw_len = (uint32_t)raw_len,
		.sequence = sequence,
		.payload_hash = hash64_seed(payload.data, payload.len, segment->salt),
	};
	header.header_hash = hash_header(&header, segment->salt);
	if (buffer_reserve(out, sizeof(header) + payload.len) < 0) {
		/* What is in it already is good. */
		buffer_truncate(out, out->len);
		return error_nomem(err);
	}
	buffer_append(out, &header, sizeof(header));
	buffer_append(out, payload.data, payload.len);
	return 0;
}

int log_segment_write(struct log_segment *segment, struct bytes records, struct error *err)
{
	int r = 0;
	if (segment->dirty_tail)
		r = io_truncate(segment->fd, segment->offset, segment->path, err);
	if (r < 0)
		return r;
	segment->dirty_tail = true;
	r = io_pwrite(segment->fd, records.data, records.len, segment->offset, segment->path, err);
	if (r < 0) {
		log_segment_rewind(segment, segment->offset);
		return r;
	}
	segment->dirty_tail = false;
	segment->offset += records.len;
	return 0;
}

int log_segment_sync(struct log_segment *segment, struct error *err)
{
	return io_sync(segment->fd, segment->path, err);
}

void log_segment_rewind(struct log_segment *segment, uint64_t offset)
{
	segment->dirty_tail = io_truncate(segment->fd, offset, segment->path, NULL) < 0;
	segment->offset = offset;
}

void log_segment_close(struct log_segment *segment)
{
	io_close(segment->fd);
	mem_free(segment->path);
	*segment = LOG_SEGMENT_NONE;
}

int log_segment_remove(const char *directory, uint64_t number, struct error *err)
{
	char path[PATH_MAX];
	int r = segment_path(directory, number, path);
	if (r < 0)
		return error_set_errno(err, r, "log in %s", directory);
	r = io_unlink(path, err);
	/* One that came back after a power loss would bring back what retention or somebody has deleted since. */
	return r == 0 ? io_sync_dir(directory, err) : r;
}

/* Making a context costs as much as compressing a small record, so each thread keeps one. */
static pthread_key_t context_key;
static pthread_once_t context_once = PTHREAD_ONCE_INIT;
static bool has_context_key;

static void free_context(void *context)
{
	ZSTD_freeCCtx(context);
}

static void make_context_key(void)
{
	has_context_key = pthread_key_create(&context_key, free_context) == 0;
}

/* NULL without memory. */
static ZSTD_CCtx *own_context(void)
{
	pthread_once(&context_once, make_context_key);
	ZSTD_CCtx *context = has_context_key ? pthread_getspecific(context_key) : NULL;
	if (context || !has_context_key)
		return context;
	context = ZSTD_createCCtx();
	if (context && pthread_setspecific(context_key, context) != 0) {
		ZSTD_freeCCtx(context);
		context = NULL;
	}
	return context;
}

int log_compress(struct bytes payload, struct buffer *out, size_t *ret_raw_len, struct error *err)
{
	*ret_raw_len = 0;
	size_t bound = ZSTD_compressBound(payload.len);
	if (payload.len < COMPRESS_MIN)
		return 0;
	if (buffer_reserve(out, bound) < 0)
		return error_nomem(err);
	ZSTD_CCtx *context = own_context();
	if (!context)
		return error_nomem(err);
	/* A record lives for minutes: it must be written fast rather than be small. */
	size_t len = ZSTD_compressCCtx(context, out->data, bound, payload.data, payload.len, LOG_COMPRESSION);
	if (ZSTD_isError(len))
		return error_nomem(err);
	if (len > payload.len - payload.len / 8)
		return 0;
	out->len = len;
	*ret_raw_len = payload.len;
	return 0;
}

/* ---- replay ---- */

/* A segment: a file, or bytes. */
struct reader {
	const struct log_replay *replay;
	struct log_replay_result *result;
	const char *name;
	int fd;
	struct bytes bytes;
	uint64_t size, number, salt;
	struct timespec written; /* the file, the last time */
	bool is_first, is_last;
	struct buffer stored, raw;
	struct error *err;
};

static void problem(const struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void problem(const struct reader *reader, const char *format, ...)
{
	char text[PROBLEM_TEXT_MAX];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (reader->replay->on_problem)
		reader->replay->on_problem(reader->replay->context, text);
}

/* Reads exactly len bytes that are known to be there. */
static int read_at(struct reader *reader, uint64_t offset, void *data, size_t len)
{
	if (reader->fd < 0) {
		if (len)
			memcpy(data, reader->bytes.data + offset, len);
		return 0;
	}
	ssize_t n = io_pread(reader->fd, data, len, offset, reader->name, reader->err);
	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : error_set(reader->err, -EIO, "%s was truncated while it was read", reader->name);
}

enum verdict {
	RECORD_GOOD,
	RECORD_TORN,	   /* the file ends inside */
	RECORD_BAD_HEADER, /* its length cannot be trusted */
	RECORD_BAD_PAYLOAD,
};

/* ---- flipped bits ---- */

static void note_corrected(struct reader *reader, uint64_t offset)
{
	reader->result->corrected_bits++;
	problem(reader, "%s: a flipped bit of byte %" PRIu64 " was put right in memory", reader->name, offset);
}

static bool is_record_header(const struct reader *reader, const struct record_header *header)
{
	return header->magic == RECORD_MAGIC && header->header_hash == hash_header(header, reader->salt) &&
	       header->stored_len <= RECORD_BYTES_MAX && header->raw_len <= RECORD_BYTES_MAX && !header->reserved;
}

/* One that is where a record should begin. */
static bool correct_header(struct reader *reader, uint64_t offset, struct record_header *header)
{
	uint8_t *bytes = (uint8_t *)header;
	for (size_t bit = 0; bit < sizeof(*header) * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (is_record_header(reader, header)) {
			note_corrected(reader, offset + bit / 8);
			return true;
		}
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	return false;
}

static bool correct_payload(struct reader *reader, uint64_t offset, uint8_t *bytes, size_t len, uint64_t hash)
{
	for (size_t bit = 0; len <= CORRECTED_MAX && bit < len * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (hash64_seed(bytes, len, reader->salt) == hash) {
			note_corrected(reader, offset + bit / 8);
			return true;
		}
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	return false;
}

/* Looks at the header at offset; *ret is valid unless BAD_HEADER or torn inside the header itself. */
static int read_header(struct reader *reader, uint64_t offset, struct record_header *ret, enum verdict *verdict)
{
	uint64_t left = reader->size - offset;
	*ret = (struct record_header){0};
	*verdict = RECORD_TORN;
	if (left < sizeof(*ret))
		return 0;
	int r = read_at(reader, offset, ret, sizeof(*ret));
	if (r < 0)
		return r;
	if (!is_record_header(reader, ret))
		*verdict = RECORD_BAD_HEADER;
	else if (ret->stored_len <= left - sizeof(*ret))
		*verdict = RECORD_GOOD;
	return 0;
}

static int read_payload(struct reader *reader, uint64_t offset, const struct record_header *header, struct bytes *ret,
			enum verdict *verdict)
{
	buffer_clear(&reader->stored);
	if (buffer_reserve(&reader->stored, header->stored_len + 1) < 0)
		return error_nomem(reader->err);
	int r = read_at(reader, offset + sizeof(*header), reader->stored.data, header->stored_len);
	if (r < 0)
		return r;
	*ret = (struct bytes){reader->stored.data, header->stored_len};
	*verdict = RECORD_BAD_PAYLOAD;
	if (hash64_seed(ret->data, ret->len, reader->salt) != header->payload_hash &&
	    !correct_payload(reader, offset + sizeof(*header), reader->stored.data, ret->len, header->payload_hash))
		return 0;
	if (header->raw_len) {
		buffer_clear(&reader->raw);
		if (buffer_reserve(&reader->raw, header->raw_len) < 0)
			return error_nomem(reader->err);
		size_t len = ZSTD_decompress(reader->raw.data, header->raw_len, ret->data, ret->len);
		if (ZSTD_isError(len) || len != header->raw_len)
			return 0;
		*ret = (struct bytes){reader->raw.data, len};
	}
	*verdict = RECORD_GOOD;
	return 0;
}

/* ---- damage ---- */

/* Whether all bytes from offset on are zero. */
static int only_zeros(struct reader *reader, uint64_t offset, bool *ret)
{
	uint8_t window[4096];
	*ret = false;
	while (offset < reader->size) {
		size_t len = reader->size - offset < sizeof(window) ? (size_t)(reader->size - offset) : sizeof(window);
		int r = read_at(reader, offset, window, len);
		if (r < 0)
			return r;
		for (size_t i = 0; i < len; i++)
			if (window[i])
				return 0;
		offset += len;
	}
	*ret = true;
	return 0;
}

/* The first offset at or behind `from` with a record header that verifies; the end of the file if there is none. */
static int find_header(struct reader *reader, uint64_t from, uint64_t *ret)
{
	static const uint8_t magic[] = {'W', 'R', 'E', 'C'};
	_cleanup_(mem_freep) uint8_t *window = mem_alloc(SEARCH_WINDOW);
	if (!window)
		return error_nomem(reader->err);
	*ret = reader->size;
	while (reader->size - from >= LOG_RECORD_HEADER_SIZE) {
		size_t len = reader->size - from < SEARCH_WINDOW ? (size_t)(reader->size - from) : SEARCH_WINDOW;
		int r = read_at(reader, from, window, len);
		if (r < 0)
			return r;
		for (const uint8_t *at = window; (at = memmem(at, len - (size_t)(at - window), magic, sizeof(magic))); at++) {
			struct record_header header;
			enum verdict verdict;
			r = read_header(reader, from + (uint64_t)(at - window), &header, &verdict);
			if (r < 0)
				return r;
			if (verdict == RECORD_GOOD || (verdict == RECORD_TORN && header.magic == RECORD_MAGIC)) {
				*ret = from + (uint64_t)(at - window);
				return 0;
			}
		}
		if (len < SEARCH_WINDOW)
			break;
		from += len - (sizeof(magic) - 1);
	}
	return 0;
}

/* Copies a damaged part of the segment out. */
static int copy_out(struct reader *reader, uint64_t from, uint64_t to, char path[PATH_MAX])
{
	char name[80];
	const char *quarantine = reader->replay->quarantine;
	snprintf(name, sizeof(name), "log-%08" PRIu64 "-at-%" PRIu64 ".bin", reader->number, from);
	int r = io_join_path(path, PATH_MAX, quarantine, name);
	if (r < 0)
		return error_set_errno(reader->err, r, "%s", quarantine);
	r = io_make_dirs(quarantine, 0750, reader->err);
	if (r < 0)
		return r;
	_cleanup_(fd_closep) int fd = io_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0640, reader->err);
	_cleanup_(mem_freep) uint8_t *window = mem_alloc(SEARCH_WINDOW);
	if (fd < 0)
		return fd;
	if (!window)
		return error_nomem(reader->err);
	/* The next start knows by it which time the copy is of: gaps.c. */
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, reader->written};
	uint64_t at = from;
	while (from < to) {
		size_t len = to - from < SEARCH_WINDOW ? (size_t)(to - from) : SEARCH_WINDOW;
		r = read_at(reader, from, window, len);
		if (r == 0)
			r = io_write(fd, window, len, path, reader->err);
		if (r < 0)
			return r;
		from += len;
	}
	if (to > at && futimens(fd, times) < 0)
		return error_set_errno(reader->err, -errno, "cannot set the time of %s", path);
	return 0;
}

static void lost(const struct reader *reader, struct log_lost lost)
{
	const struct log_replay *replay = reader->replay;
	lost.written_ns = (int64_t)reader->written.tv_sec * NS_PER_S + reader->written.tv_nsec;
	if (replay->on_lost)
		replay->on_lost(replay->context, &lost);
}

/* records: that are known to be in it. */
static int set_aside(struct reader *reader, uint64_t from, uint64_t to, uint64_t records, const char *what)
{
	char path[PATH_MAX] = "";
	reader->result->damaged++;
	reader->result->lost_bytes += to - from;
	reader->result->lost_records += records;
	if (!reader->replay->quarantine) {
		problem(reader, "%s: %s at byte %" PRIu64 ": %" PRIu64 " bytes", reader->name, what, from, to - from);
		return 0;
	}
	int r = copy_out(reader, from, to, path);
	if (r < 0)
		return r;
	problem(reader, "%s: %s at byte %" PRIu64 ": %" PRIu64 " bytes are set aside as %s", reader->name, what, from,
		to - from, path);
	lost(reader, (struct log_lost){.bytes = to - from, .records = records});
	return 0;
}

/* A torn end that nobody was promised: cut off, so that it does not look like damage once newer segments follow. */
static int cut_tail(struct reader *reader, uint64_t offset)
{
	if (reader->fd < 0 || reader->replay->read_only)
		return 0;
	int r = io_truncate(reader->fd, offset, reader->name, reader->err);
	return r < 0 ? r : io_sync(reader->fd, reader->name, reader->err);
}

/* The end of the log, from `offset` on, is not a whole record. */
static void note_cut(struct reader *reader, uint64_t offset, uint64_t end)
{
	struct record_header header;
	enum verdict verdict;
	struct log_lost cut = {.bytes = end - offset, .records = 1, .is_cut = true};
	if (end - offset >= sizeof(header) && read_header(reader, offset, &header, &verdict) == 0)
		cut.record_bytes = sizeof(header) + header.stored_len;
	reader->result->cut_bytes = cut.bytes;
	reader->result->cut_record_bytes = cut.record_bytes;
	if (!reader->replay->read_only)
		lost(reader, cut);
}

/* The bytes at offset are not a record. *ret_next is where to go on. */
static int handle_damage(struct reader *reader, uint64_t offset, enum verdict verdict, uint64_t *ret_next)
{
	bool zeros = false;
	uint64_t next = reader->size;
	int r = 0;
	if (verdict != RECORD_TORN)
		r = only_zeros(reader, offset, &zeros);
	/* A header that promises more than there is may be followed by others if its own promise is what is damaged; but then
	 * its hash would not have matched. */
	if (r == 0 && verdict == RECORD_BAD_HEADER && !zeros)
		r = find_header(reader, offset + 1, &next);
	if (r < 0)
		return r;
	*ret_next = next;
	if (next == reader->size && (verdict == RECORD_TORN || zeros)) {
		if (reader->is_last && verdict == RECORD_TORN && !zeros)
			note_cut(reader, offset, next);
		if (reader->is_last)
			return cut_tail(reader, offset);
		return set_aside(reader, offset, next, 0, "the segment ends inside a record");
	}
	/* Those behind it tell by their sequences how many it was. */
	return set_aside(reader, offset, next, next == reader->size && reader->is_last, "no valid record");
}

/* ---- the walk ---- */

/* Records between the last one and this one: what is damaged was named already. */
static void note_missing(struct reader *reader, uint64_t sequence)
{
	uint64_t last = reader->result->last_sequence;
	reader->result->lost_records += sequence - last - 1;
	if (sequence == last + 1 || reader->result->damaged)
		return;
	problem(reader, "%s: records %" PRIu64 " to %" PRIu64 " are missing", reader->name, last + 1, sequence - 1);
	reader->result->damaged++;
	lost(reader, (struct log_lost){.records = sequence - last - 1});
}

static int handle_record(struct reader *reader, uint64_t offset, const struct record_header *header)
{
	struct bytes payload;
	enum verdict verdict = RECORD_BAD_PAYLOAD;
	uint64_t end = offset + sizeof(*header) + header->stored_len;
	if (header->sequence <= reader->result->last_sequence) {
		reader->result->skipped++;
		return 0;
	}
	int r = read_payload(reader, offset, header, &payload, &verdict);
	if (r < 0)
		return r;
	note_missing(reader, header->sequence);
	reader->result->last_sequence = header->sequence;
	if (verdict != RECORD_GOOD)
		return set_aside(reader, offset, end, 1, "a record does not match its checksum");
	struct error own = {0};
	r = reader->replay->on_record(reader->replay->context, header->sequence, payload, &own);
	if (r == -EBADMSG) {
		char what[ERROR_MESSAGE_MAX + 32];
		snprintf(what, sizeof(what), "a record cannot be used (%s)", own.message);
		return set_aside(reader, offset, end, 1, what);
	}
	if (r < 0) {
		if (reader->err)
			*reader->err = own;
		return r;
	}
	reader->result->records++;
	return 0;
}

static int walk(struct reader *reader)
{
	uint64_t offset = LOG_SEGMENT_HEADER_SIZE;
	while (offset < reader->size) {
		struct record_header header;
		enum verdict verdict;
		uint64_t next;
		int r = read_header(reader, offset, &header, &verdict);
		if (r < 0)
			return r;
		if (verdict == RECORD_BAD_HEADER && correct_header(reader, offset, &header))
			verdict = header.stored_len <= reader->size - offset - sizeof(header) ? RECORD_GOOD : RECORD_TORN;
		if (verdict == RECORD_GOOD) {
			next = offset + sizeof(header) + header.stored_len;
			r = handle_record(reader, offset, &header);
		} else {
			r = handle_damage(reader, offset, verdict, &next);
		}
		if (r < 0)
			return r;
		assert(next > offset);
		offset = next;
	}
	return 0;
}

static bool is_header_valid(const struct segment_header *header)
{
	return !memcmp(header->magic, SEGMENT_MAGIC, sizeof(header->magic)) &&
	       header->hash == hash64(header, offsetof(struct segment_header, hash));
}

/* 1 = *ret is valid, 0 = the segment is of no use, and dealt with. */
static int read_segment_header(struct reader *reader, struct segment_header *ret)
{
	struct segment_header both[2];
	bool zeros = false;
	if (reader->size >= sizeof(both)) {
		int r = read_at(reader, 0, both, sizeof(both));
		if (r < 0)
			return r;
		bool valid[] = {is_header_valid(&both[0]), is_header_valid(&both[1])};
		if (valid[0] != valid[1]) {
			reader->result->damaged++;
			problem(reader, "%s: its header is damaged; its copy is used", reader->name);
		}
		*ret = both[valid[0] ? 0 : 1];
		if (valid[0] || valid[1])
			return 1;
	}
	int r = only_zeros(reader, 0, &zeros);
	if (r < 0)
		return r;
	if (zeros || (reader->is_last && reader->size < sizeof(both)))
		return reader->is_last ? cut_tail(reader, 0) : 0;
	return set_aside(reader, 0, reader->size, 0, "this is not a log segment, or its header is damaged");
}

static int replay_segment(struct reader *reader)
{
	struct segment_header header = {0};
	struct log_replay_result *result = reader->result;
	result->bytes += reader->size;
	int r = read_segment_header(reader, &header);
	if (r <= 0)
		return r;
	if (header.version > LOG_VERSION)
		return error_set(reader->err, -ENOTSUP,
				 "%s has version %u, and this program supports versions up to %d: use a newer wick",
				 reader->name, header.version, LOG_VERSION);
	reader->salt = header.salt;
	if (header.first_sequence > result->last_sequence + 1) {
		if (!reader->is_first && !result->damaged)
			problem(reader, "%s: records %" PRIu64 " to %" PRIu64 " before it are missing", reader->name,
				result->last_sequence + 1, header.first_sequence - 1);
		if (!reader->is_first)
			result->lost_records += header.first_sequence - result->last_sequence - 1;
		result->last_sequence = header.first_sequence - 1;
	}
	const struct log_replay *replay = reader->replay;
	r = replay->on_segment ? replay->on_segment(replay->context, header.first_sequence, reader->err) : 0;
	return r < 0 ? r : walk(reader);
}

static int compare_numbers(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* "NNNNNNNN.log" */
static bool parse_segment_name(const char *name, uint64_t *ret)
{
	char *end;
	if (name[0] < '0' || name[0] > '9')
		return false;
	errno = 0;
	*ret = strtoull(name, &end, 10);
	return !strcmp(end, ".log") && errno == 0 && *ret < UINT64_MAX / 2;
}

static int list_segments(const char *directory, uint64_t **ret, size_t *ret_count, struct error *err)
{
	uint64_t *numbers = NULL;
	size_t count = 0, capacity = 0;
	DIR *dir = opendir(directory);
	if (!dir)
		return error_set_errno(err, -errno, "cannot list %s", directory);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		uint64_t number;
		if (!parse_segment_name(entry->d_name, &number))
			continue;
		if (array_reserve(&numbers, &capacity, count + 1, SEGMENTS_MAX) < 0) {
			closedir(dir);
			mem_free(numbers);
			return error_nomem(err);
		}
		numbers[count++] = number;
	}
	closedir(dir);
	if (count)
		qsort(numbers, count, sizeof(*numbers), compare_numbers);
	*ret = numbers;
	*ret_count = count;
	return 0;
}

/* Whether a segment was ever begun. */
static int has_header(const char *directory, uint64_t number, bool *ret, struct error *err)
{
	char path[PATH_MAX];
	struct segment_header both[2];
	int r = segment_path(directory, number, path);
	if (r < 0)
		return error_set_errno(err, r, "log in %s", directory);
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY, 0, err);
	if (fd < 0)
		return fd;
	ssize_t n = io_pread(fd, both, sizeof(both), 0, path, err);
	*ret = n == sizeof(both) && (is_header_valid(&both[0]) || is_header_valid(&both[1]));
	return n < 0 ? (int)n : 0;
}

/* The index of the last segment that was begun; 0 if none was. */
static int find_last(const char *directory, const uint64_t *numbers, size_t count, size_t *ret, struct error *err)
{
	bool found = false;
	int r = 0;
	*ret = 0;
	for (size_t i = count; r == 0 && !found && i-- > 0;) {
		r = has_header(directory, numbers[i], &found, err);
		*ret = i;
	}
	return r;
}

static int replay_file(struct reader *reader)
{
	char path[PATH_MAX];
	int r = segment_path(reader->replay->directory, reader->number, path);
	if (r < 0)
		return error_set_errno(reader->err, r, "log in %s", reader->replay->directory);
	reader->name = path;
	reader->fd = io_open(path, reader->replay->read_only ? O_RDONLY : O_RDWR, 0, reader->err);
	if (reader->fd < 0)
		return reader->fd;
	uint64_t records = reader->result->records;
	struct stat about;
	if (fstat(reader->fd, &about) == 0)
		reader->written = about.st_mtim;
	r = io_file_size(reader->fd, &reader->size, path, reader->err);
	if (r == 0)
		r = replay_segment(reader);
	/* A process that was killed may have left records that only the page cache has. From now on they count: a retry of one
	 * is acknowledged as a duplicate. And what was cut off the last one, after a sync that failed, must not come back under
	 * sequences that are given again. */
	if (r == 0 && !reader->replay->read_only && (reader->result->records > records || reader->is_last))
		r = io_sync(reader->fd, path, reader->err);
	reader->fd = io_close(reader->fd);
	return r;
}

int log_replay(const struct log_replay *replay, struct log_replay_result *ret, struct error *err)
{
	_cleanup_(mem_freep) uint64_t *numbers = NULL;
	size_t count = 0, last = 0;
	*ret = (struct log_replay_result){.last_sequence = replay->after, .first_segment = 1, .next_segment = 1};
	int r = list_segments(replay->directory, &numbers, &count, err);
	if (r < 0)
		return r;
	r = find_last(replay->directory, numbers, count, &last, err);
	struct reader reader = {
		.replay = replay, .result = ret, .fd = -1, .stored.max = SIZE_MAX, .raw.max = SIZE_MAX, .err = err};
	for (size_t i = 0; r == 0 && i < count; i++) {
		reader.number = numbers[i];
		reader.is_first = i == 0;
		reader.is_last = i >= last;
		r = replay_file(&reader);
	}
	if (count) {
		ret->first_segment = numbers[0];
		ret->next_segment = numbers[count - 1] + 1;
	}
	buffer_release(&reader.stored);
	buffer_release(&reader.raw);
	return r;
}

int log_replay_bytes(struct bytes segment, const struct log_replay *replay, struct log_replay_result *ret, struct error *err)
{
	*ret = (struct log_replay_result){.last_sequence = replay->after};
	struct reader reader = {.replay = replay,
				.result = ret,
				.fd = -1,
				.name = "segment",
				.bytes = segment,
				.size = segment.len,
				.stored.max = SIZE_MAX,
				.raw.max = SIZE_MAX,
				.err = err};
	int r = replay_segment(&reader);
	buffer_release(&reader.stored);
	buffer_release(&reader.raw);
	return r;
}
