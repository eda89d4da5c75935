/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending debug information to a server. Of an ELF file only what symbolization needs is sent (elf/extract.h), unless the whole
 * program is asked for. The server says where to begin, so that an upload that was interrupted goes on where it stopped; what
 * may pass (a line that broke, a server that is busy) is tried again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/debuginfo.h"
#include "daemon/upload_client.h"
#include "elf/build_id.h"
#include "elf/extract.h"
#include "net/net.h"

#define PIECE_BYTES (4 * MIB)
#define TRIES	    10 /* without progress */
#define PAUSE_NS    (2 * NS_PER_S)
#define TIMEOUT_NS  (120 * NS_PER_S)
#define BAR_NS	    (NS_PER_S / 5)

/* One file on its way. */
struct sending {
	const struct debuginfo_upload *upload;
	struct net_client *client;
	const char *url, *name;
	char build_id[BUILD_ID_HEX_MAX], hash[33], id[sizeof(((struct upload_reply *)0)->id)];
	int fd; /* what is sent: the file, or what was extracted of it */
	uint64_t size, offset, resumed;
	uint8_t *piece;
	int64_t shown_ns;
	char own_id[BUILD_ID_HEX_MAX]; /* the file's, where the user says another; "" = none */
	bool without_build_id;	       /* it is known by its hash, or by what the user says */
	bool reached, reported;	       /* the server has answered; what is waited for has been said */
};

/* ---- talking to the server ---- */

/* What came of a call: negative when no answer did. */
static int note_reply(struct sending *sending, int r, const struct upload_reply *reply, struct error *err)
{
	if (r < 0)
		return r; /* its message names the URL */
	sending->reached = true;
	if (reply->status >= 300)
		error_set(err, -EBADMSG, "%s", reply->message);
	return 0;
}

static bool may_pass(int status)
{
	return status == 503 || status == 507 || status == 429 || status == 408;
}

/* ---- begin, pieces, end ---- */

enum step { DONE, AGAIN, EXISTS, FAILED };

static enum step begin(struct sending *sending, struct error *err)
{
	const struct debuginfo_upload *upload = sending->upload;
	const struct upload_offer offer = {.build_id = sending->build_id,
					   .kind = upload->kind ? upload->kind : "debuginfo",
					   .hash = sending->hash,
					   .size = sending->size,
					   .without_build_id = sending->without_build_id,
					   .force = upload->force};
	struct upload_reply reply = {0};
	int r = note_reply(sending, upload_client_begin(sending->client, &offer, &reply, err), &reply, err);
	if (r < 0)
		return sending->reached ? AGAIN : FAILED;
	if (reply.status == 201 && reply.id[0] && reply.offset <= sending->size) {
		memcpy(sending->id, reply.id, sizeof(sending->id));
		sending->offset = sending->resumed = reply.offset;
		return DONE;
	}
	if (reply.status == 201)
		error_set(err, -EBADMSG, "%s sent a malformed response", sending->url);
	if (reply.status == 409 && strcmp(reply.reason, "exists") == 0)
		return EXISTS;
	/* Busy, or somebody else is sending it. */
	return reply.status == 409 || may_pass(reply.status) ? AGAIN : FAILED;
}

static void show_progress(struct sending *sending)
{
	char done[TEXT_NUMBER_MAX], all[TEXT_NUMBER_MAX];
	int64_t now_ns = time_monotonic_ns();
	if (!terminal_is_interactive() || (now_ns - sending->shown_ns < BAR_NS && sending->offset < sending->size))
		return;
	sending->shown_ns = now_ns;
	fputc('\r', stderr);
	cmd_printf(stderr, "%.60s: %s of %s (%u%%)", sending->name, text_format_size(sending->offset, done),
		   text_format_size(sending->size, all),
		   (unsigned)(sending->size ? 100 * (double)sending->offset / (double)sending->size : 100));
	fputs("\033[K", stderr);
}

static void clear_progress(const struct sending *sending)
{
	if (sending->shown_ns)
		fprintf(stderr, "\r\033[K");
}

static enum step send_piece(struct sending *sending, struct error *err)
{
	uint64_t left = sending->size - sending->offset;
	size_t len = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
	ssize_t got = io_pread(sending->fd, sending->piece, len, sending->offset, sending->name, err);
	if (got != (ssize_t)len) {
		if (got >= 0)
			error_set(err, -EBADMSG, "the file was truncated while it was read");
		return FAILED;
	}
	struct upload_reply reply = {0};
	struct bytes piece = {sending->piece, len};
	int r = upload_client_put(sending->client, sending->id, sending->offset, piece, &reply, err);
	if (note_reply(sending, r, &reply, err) < 0)
		return AGAIN;
	bool reported = reply.has_offset && reply.offset <= sending->size;
	if (reply.status == 200 && reported && reply.offset > sending->offset) {
		sending->offset = reply.offset;
		return DONE;
	}
	if (reply.status == 409 && reported)
		sending->offset = reply.offset;
	if (reply.status == 404) /* it was given to somebody else: begin anew */
		*sending->id = 0;
	return reply.status == 409 || reply.status == 404 || may_pass(reply.status) ? AGAIN : FAILED;
}

static enum step finish(struct sending *sending, struct error *err)
{
	struct upload_reply reply = {0};
	int r = upload_client_finish(sending->client, sending->id, &reply, err);
	if (note_reply(sending, r, &reply, err) < 0)
		return AGAIN;
	if (reply.status == 404)
		*sending->id = 0;
	return reply.status == 200						      ? DONE
	       : reply.status == 409 || reply.status == 404 || may_pass(reply.status) ? AGAIN
										      : FAILED;
}

/* Goes on until it is done or something is in the way. */
static enum step go_on(struct sending *sending, unsigned *tries, struct error *err)
{
	enum step step = *sending->id ? DONE : begin(sending, err);
	if (step != DONE)
		return step;
	while (sending->offset < sending->size) {
		step = send_piece(sending, err);
		if (step != DONE)
			return step;
		*tries = 0;
		show_progress(sending);
	}
	return finish(sending, err);
}

static int send_file(struct sending *sending, bool *ret_existed, struct error *err)
{
	enum step step;
	for (unsigned tries = 0;; tries++) {
		step = go_on(sending, &tries, err);
		if (step != AGAIN || tries >= TRIES)
			break;
		if (!sending->reported)
			cmd_printf(stderr, "wick debuginfo: %s: %s; retrying\n", sending->name, err->message);
		sending->reported = true;
		time_sleep_ns(PAUSE_NS);
	}
	clear_progress(sending);
	*ret_existed = step == EXISTS;
	return step == DONE || step == EXISTS ? 0 : err->code ? err->code : -EIO;
}

/* ---- what is sent ---- */

/* A file without a name, on the disk where temporary files belong: what is extracted may be larger than memory. */
static int make_temporary(struct error *err)
{
	const char *directory = getenv("TMPDIR");
	int fd = open(directory && *directory ? directory : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		fd = memfd_create("wick-debuginfo", MFD_CLOEXEC);
	return fd < 0 ? error_set_errno(err, -errno, "cannot create a temporary file") : fd;
}

/* Pipes and files of /proc have no size. */
static int copy_file(int from, int to, const char *name, struct error *err)
{
	_cleanup_(mem_freep) uint8_t *piece = mem_alloc(MIB);
	ssize_t len = piece ? 1 : error_nomem(err);
	int r = 0;
	while (len > 0 && !r) {
		len = io_read(from, piece, MIB, name, err);
		if (len > 0)
			r = io_write(to, piece, (size_t)len, "a temporary file", err);
	}
	return len < 0 ? (int)len : r;
}

static int extract(struct sending *sending, int file_fd, struct error *err)
{
	struct elf_file file;
	struct elf_extract_result result;
	sending->fd = make_temporary(err);
	if (sending->fd < 0)
		return sending->fd;
	int r = elf_file_open(&file, file_fd, sending->name, err);
	if (r < 0)
		return r;
	r = elf_extract(&file, sending->fd, NULL, &result, err);
	elf_file_release(&file);
	if (r == -ENOENT)
		return error_set(err, r, "it has no symbols and no debug information");
	if (!r && !result.has_debug && !result.has_symtab && !result.has_pclntab)
		fprintf(stderr,
			"wick debuginfo: %s: it has only exported symbols; upload the file with its debug information, too\n",
			sending->name);
	return r;
}

/* Fills in what is sent: descriptor, size, build-id, hash. */
static int prepare(struct sending *sending, int file_fd, struct error *err)
{
	const char *kind = sending->upload->kind ? sending->upload->kind : "debuginfo";
	bool is_elf = strcmp(kind, "debuginfo") == 0 || strcmp(kind, "executable") == 0;
	struct stat info;
	struct hash128 hash;
	int r = 0;
	if (sending->upload->build_id) {
		snprintf(sending->build_id, sizeof(sending->build_id), "%s", sending->upload->build_id);
		if (!is_elf || build_id_read_fd(file_fd, sending->own_id, NULL) < 0 ||
		    strcmp(sending->own_id, sending->build_id) == 0)
			*sending->own_id = 0;
	} else if (is_elf) {
		r = binary_id_read_fd(file_fd, sending->build_id, err);
	} else {
		r = error_set(err, -EINVAL, "give its build-id with --build-id");
	}
	if (r < 0)
		return r;
	sending->without_build_id = sending->upload->build_id || r > 0;
	if (strcmp(kind, "debuginfo") == 0 && !sending->upload->whole) {
		r = extract(sending, file_fd, err);
	} else if (fstat(file_fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size) {
		sending->fd = dup(file_fd);
		r = sending->fd < 0 ? error_set_errno(err, -errno, "cannot read it") : 0;
	} else {
		sending->fd = make_temporary(err);
		r = sending->fd < 0 ? sending->fd : copy_file(file_fd, sending->fd, sending->name, err);
	}
	if (!r)
		r = io_file_size(sending->fd, &sending->size, sending->name, err);
	if (!r)
		r = hash128_file(sending->fd, sending->name, &hash, err);
	if (!r)
		snprintf(sending->hash, sizeof(sending->hash), "%016llx%016llx", (unsigned long long)hash.high,
			 (unsigned long long)hash.low);
	return r;
}

static int upload_one(struct sending *sending, struct error *err)
{
	char size[TEXT_NUMBER_MAX], from[TEXT_NUMBER_MAX];
	bool existed = false;
	/* Who reports it names the file. */
	_cleanup_(fd_closep) int file_fd = io_open(sending->name, O_RDONLY, 0, NULL);
	if (file_fd < 0)
		return error_set_errno(err, file_fd, "cannot open it");
	int r = prepare(sending, file_fd, err);
	if (!r)
		r = send_file(sending, &existed, err);
	if (r < 0)
		return r;
	if (existed)
		cmd_printf(stderr, "%s: build-id %s already exists\n", sending->name, sending->build_id);
	else if (sending->resumed)
		cmd_printf(stderr, "%s: build-id %s, %s sent (resumed at %s)\n", sending->name, sending->build_id,
			   text_format_size(sending->size, size), text_format_size(sending->resumed, from));
	else
		cmd_printf(stderr, "%s: build-id %s, %s sent\n", sending->name, sending->build_id,
			   text_format_size(sending->size, size));
	if (*sending->own_id)
		cmd_printf(stderr, "%s: its own build-id is %s; it is found by both\n", sending->name, sending->own_id);
	return 0;
}

unsigned debuginfo_upload_files(const struct debuginfo_upload *upload, char *const *files, size_t count, struct error *err)
{
	_cleanup_(mem_freep) uint8_t *piece = mem_alloc(PIECE_BYTES);
	_cleanup_(net_client_freep) struct net_client *client = NULL;
	unsigned failed = 0;
	int r = piece ? 0 : error_nomem(err);
	if (!r)
		r = remote_connect(&upload->remote, TIMEOUT_NS, NULL, &client, err);
	if (r < 0)
		return (unsigned)count;
	for (size_t i = 0; i < count; i++) {
		struct error problem = {0};
		struct sending sending = {.upload = upload,
					  .client = client,
					  .url = remote_url(&upload->remote),
					  .name = files[i],
					  .fd = -1,
					  .piece = piece};
		if (upload_one(&sending, &problem) < 0) {
			cmd_printf(stderr, "wick debuginfo: %s: %s\n", files[i], problem.message);
			failed++;
		}
		io_close(sending.fd);
	}
	return failed;
}
