/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/uploader.h"

#include <errno.h>
#include <linux/ioprio.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/upload/debug_copy.h"
#include "agent/upload/upload_queue.h"
#include "base/alloc.h"
#include "base/cpu_budget.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"
#include "daemon/upload_client.h"
#include "net/net.h"
#include "symbol/symbol.h"

/* Asking: once a minute in the long run; a start and a burst of new programs may have a few questions in a row. */
#define ASK_EVERY_NS	 (60 * NS_PER_S)
#define ASK_BURST	 5
#define ASK_GAP_NS	 (3 * NS_PER_S)
#define AGAIN_NS	 (3600 * NS_PER_S) /* what was answered */
#define ASK_PAUSE_MIN_NS (10 * NS_PER_S)   /* after questions without an answer */
#define ASK_PAUSE_MAX_NS (600 * NS_PER_S)
/* Sending. */
#define CALL_TIMEOUT_NS	  (30 * NS_PER_S)
#define PIECE_BYTES	  (256 * KIB)
#define PIECE_BYTES_MIN	  (4 * KIB)
#define SEND_PAUSE_MIN_NS NS_PER_S
#define SEND_PAUSE_MAX_NS (60 * NS_PER_S)
#define SEND_TRIES	  8		   /* in a row, without a byte of progress */
#define BUSY_PAUSE_NS	  (60 * NS_PER_S)  /* another agent is sending it */
#define KERNEL_PAUSE_NS	  (3 * NS_PER_S)   /* until the server has made a table of the list */
#define FILE_PAUSE_NS	  (300 * NS_PER_S) /* before a file is tried again: times the number of tries */
#define FILE_TRIES	  5
#define COST_BURST_NS	  NS_PER_S	   /* of a CPU, before it rests */
#define COST_FACTOR	  500		   /* rest for each time of a CPU: 0.2 % */
#define REST_MAX_NS	  (600 * NS_PER_S) /* so that no file, whatever it costs, keeps the others waiting for hours */
#define ALTS_REMEMBERED	  16

struct uploader {
	struct upload_queue *queue;
	struct net_client *client;
	struct uploader_options options;
	char *directory;
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool woken;		  /* under the lock */
	atomic_bool stop;	  /* the client polls it */
	atomic_bool has_given_up; /* the server takes no debug information */
	atomic_bool names_kernel; /* the server does */

	/* of the thread */
	char kernel[BUILD_ID_HEX_MAX];
	bool is_kernel_refused, is_disabled;
	int64_t asked_ns, ask_credit_ns, ask_pause_ns;
	struct cpu_budget budget;
	int64_t cpu_ns;	       /* of the thread, that the budget knows of */
	bool is_nice;	       /* it has the lowest priority */
	int64_t next_piece_ns; /* the rate's */
	bool warned_of_token;
	char alts[ALTS_REMEMBERED][BUILD_ID_HEX_MAX]; /* that need not be sent again */
	size_t alt_next;
	/* Since the queue was last empty, for the log. */
	uint64_t batch_sent, batch_failed, batch_bytes;
	char batch_why[256];
};

/* ---- waiting ---- */

/* Until the time, a stop, or, if it may be woken, something new to ask for. */
static void wait_until(struct uploader *uploader, int64_t until_ns, bool may_wake)
{
	THREAD_LOCK_SCOPE(&uploader->lock);
	while (!cancel_requested(&uploader->stop) && !(may_wake && uploader->woken)) {
		if (!thread_wait_until(&uploader->wake, &uploader->lock, until_ns))
			break;
	}
	if (may_wake)
		uploader->woken = false;
}

static void pause_for(struct uploader *uploader, int64_t duration_ns)
{
	wait_until(uploader, time_monotonic_ns() + duration_ns, false);
}

/* Not before the budget was used once: on a busy machine a thread of the lowest priority has a thousandth of a CPU, and what
 * runs there would have no names for minutes. For this thread only; without it the work is done all the same. */
static void be_nice(struct uploader *uploader)
{
	if (!uploader->is_nice)
		setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
	uploader->is_nice = true;
}

/* Rests until the budget has what was used since the last rest, or REST_MAX_NS for it. */
static void rest(struct uploader *uploader)
{
	int64_t cpu_ns = time_thread_cpu_ns(), used_ns = cpu_ns - uploader->cpu_ns;
	uploader->cpu_ns = cpu_ns;
	int64_t now_ns = time_monotonic_ns();
	cpu_budget_use(&uploader->budget, used_ns < REST_MAX_NS / COST_FACTOR ? used_ns : REST_MAX_NS / COST_FACTOR, now_ns);
	int64_t left_ns = cpu_budget_left(&uploader->budget, now_ns);
	if (left_ns < 0) {
		be_nice(uploader);
		pause_for(uploader, -left_ns * COST_FACTOR);
	}
}

static void grow(int64_t *pause_ns, int64_t least_ns, int64_t most_ns)
{
	*pause_ns = *pause_ns < least_ns ? least_ns : *pause_ns * 2 > most_ns ? most_ns : *pause_ns * 2;
}

/* ---- asking ---- */

static void give_up(struct uploader *uploader, const char *why)
{
	if (!uploader->options.tells_only)
		log_info("no debug information is sent: %s", why);
	atomic_store(&uploader->has_given_up, true);
	upload_queue_clear(uploader->queue);
}

/* What it does not want any more it can name. An outage changes nothing: what is sent meanwhile is named when it has arrived.
 */
static void note_kernel(struct uploader *uploader)
{
	bool names = !uploader->is_disabled && !uploader->is_kernel_refused &&
		     upload_queue_is_settled(uploader->queue, &(struct upload_key){.id = uploader->kernel});
	if (names && !atomic_load(&uploader->names_kernel))
		log_info("the server has the symbols of this kernel");
	atomic_store(&uploader->names_kernel, names);
}

static void ask(struct uploader *uploader, int64_t now_ns)
{
	struct error err = {0};
	int64_t pause_ns = uploader->ask_pause_ns;
	grow(&pause_ns, ASK_PAUSE_MIN_NS, ASK_PAUSE_MAX_NS);
	struct upload_ask question = {
		.now_ns = now_ns, .again_ns = AGAIN_NS, .retry_ns = pause_ns, .tells_only = uploader->options.tells_only};
	int r = upload_client_ask(uploader->client, uploader->queue, &question, &err);
	if (r == 0 || cancel_requested(&uploader->stop))
		return;
	uploader->asked_ns = now_ns;
	uploader->ask_credit_ns = (uploader->ask_credit_ns > now_ns ? uploader->ask_credit_ns : now_ns) + ASK_EVERY_NS;
	uploader->ask_pause_ns = r < 0 ? pause_ns : 0;
	if (r == -ENOTSUP)
		give_up(uploader, err.message);
	else if (r == -EACCES && !uploader->warned_of_token)
		log_warn("%s", err.message);
	uploader->warned_of_token |= r == -EACCES;
	if (r > 0) {
		uploader->is_disabled = !question.is_enabled;
		note_kernel(uploader);
	}
}

static int64_t next_ask_ns(const struct uploader *uploader)
{
	int64_t by_gap = uploader->asked_ns + ASK_GAP_NS, by_pause = uploader->asked_ns + uploader->ask_pause_ns,
		by_credit = uploader->ask_credit_ns - (ASK_BURST - 1) * ASK_EVERY_NS;
	int64_t next = by_gap > by_pause ? by_gap : by_pause;
	return next > by_credit ? next : by_credit;
}

/* ---- sending one file ---- */

enum end {
	END_SENT,
	END_NOT_NEEDED, /* it is there, or will never be taken */
	END_BUSY,	/* somebody else sends it */
	END_FAILED,	/* perhaps another time */
};

struct sending {
	struct uploader *uploader;
	const struct upload_key *key;
	const char *kind, *from;
	int fd;
	bool without_build_id;
	uint64_t size, offset;
	char hash[33], id[64]; /* id "": not begun */
	uint8_t *piece;
	unsigned tries;
	int64_t pause_ns;
	struct error err;
	enum end end;
	bool is_over;
};

static void end_with(struct sending *sending, enum end end, const char *why)
{
	sending->is_over = true;
	sending->end = end;
	if (why)
		error_set(&sending->err, -EIO, "%s", why);
}

/* Nothing came, or "not now". */
static void try_later(struct sending *sending, const char *why)
{
	if (++sending->tries >= SEND_TRIES) {
		end_with(sending, END_FAILED, why);
		return;
	}
	grow(&sending->pause_ns, SEND_PAUSE_MIN_NS, SEND_PAUSE_MAX_NS);
	pause_for(sending->uploader, sending->pause_ns);
}

static void made_progress(struct sending *sending)
{
	sending->tries = 0;
	sending->pause_ns = 0;
}

/* What all three requests have in common. False when the answer is not one of success. */
static bool is_success(struct sending *sending, int r, const struct error *err, const struct upload_reply *reply)
{
	if (r == 0 && reply->status / 100 == 2)
		return true;
	if (r < 0)
		try_later(sending, err->message);
	else if (reply->status == 507)
		end_with(sending, END_FAILED, reply->why);
	else if (reply->status >= 500 || reply->status == 408 || reply->status == 409 || reply->status == 429)
		try_later(sending, reply->why);
	else
		end_with(sending, END_NOT_NEEDED, reply->why);
	return false;
}

static void begin(struct sending *sending)
{
	struct upload_reply reply = {0};
	struct error err = {0};
	const struct upload_offer offer = {.build_id = sending->key->id,
					   .id_type = sending->key->id_type,
					   .content = sending->key->content,
					   .kind = sending->kind,
					   .hash = sending->hash,
					   .size = sending->size,
					   .without_build_id = sending->without_build_id};
	int r = upload_client_begin(sending->uploader->client, &offer, &reply, &err);
	if (r == 0 && reply.status == 409) {
		end_with(sending, strcmp(reply.reason, "busy") == 0 ? END_BUSY : END_NOT_NEEDED,
			 strcmp(reply.reason, "contents") == 0 ? reply.why : NULL);
		return;
	}
	if (!is_success(sending, r, &err, &reply))
		return;
	if (!reply.id[0] || reply.offset > sending->size) {
		end_with(sending, END_NOT_NEEDED, "malformed response from the server");
		return;
	}
	memcpy(sending->id, reply.id, sizeof(sending->id));
	sending->offset = reply.offset;
}

/* An upload may be unknown to a server that was started anew: it is begun once more. */
static bool is_lost(struct sending *sending, int r, const struct upload_reply *reply)
{
	if (r < 0 || (reply->status != 404 && reply->status != 410))
		return false;
	sending->id[0] = 0;
	try_later(sending, reply->why);
	return true;
}

static bool is_elsewhere(struct sending *sending, int r, const struct upload_reply *reply)
{
	if (r < 0 || reply->status != 409 || !reply->has_offset || reply->offset > sending->size)
		return false;
	if (reply->offset == sending->offset || ++sending->tries >= SEND_TRIES) /* a piece of ours is still being written */
		try_later(sending, reply->why);
	sending->offset = reply->offset;
	return true;
}

static size_t piece_bytes(const struct sending *sending)
{
	uint64_t most = sending->uploader->options.rate, left = sending->size - sending->offset;
	most = most > PIECE_BYTES ? PIECE_BYTES : most < PIECE_BYTES_MIN ? PIECE_BYTES_MIN : most;
	return (size_t)(left < most ? left : most);
}

static void put(struct sending *sending)
{
	struct uploader *uploader = sending->uploader;
	struct upload_reply reply = {0};
	struct error err = {0};
	wait_until(uploader, uploader->next_piece_ns, false);
	if (cancel_requested(&uploader->stop))
		return;
	ssize_t len = io_pread(sending->fd, sending->piece, piece_bytes(sending), sending->offset, sending->from, &err);
	if (len <= 0) {
		end_with(sending, END_FAILED, len ? err.message : "a temporary file was truncated");
		return;
	}
	struct bytes piece = {sending->piece, (size_t)len};
	int r = upload_client_put(uploader->client, sending->id, sending->offset, piece, &reply, &err);
	/* Bytes that did not arrive were sent all the same. */
	uploader->next_piece_ns = time_monotonic_ns() + (int64_t)((double)len / (double)uploader->options.rate * NS_PER_S);
	if (is_lost(sending, r, &reply) || is_elsewhere(sending, r, &reply) || !is_success(sending, r, &err, &reply))
		return;
	uint64_t offset = reply.has_offset ? reply.offset : sending->offset + (uint64_t)len;
	if (offset <= sending->offset || offset > sending->size) {
		end_with(sending, END_NOT_NEEDED, "malformed response from the server");
		return;
	}
	sending->offset = offset;
	made_progress(sending);
}

static void finish(struct sending *sending)
{
	struct upload_reply reply = {0};
	struct error err = {0};
	int r = upload_client_finish(sending->uploader->client, sending->id, &reply, &err);
	if (is_lost(sending, r, &reply) || is_elsewhere(sending, r, &reply))
		return;
	if (is_success(sending, r, &err, &reply))
		end_with(sending, END_SENT, NULL);
}

static enum end send_file(struct uploader *uploader, const struct upload_key *key, const char *kind,
			  const struct debug_copy *copy, struct error *err)
{
	_cleanup_(mem_freep) uint8_t *piece = mem_alloc(PIECE_BYTES);
	struct sending sending = {.uploader = uploader,
				  .key = key,
				  .kind = kind,
				  .from = copy->from,
				  .fd = copy->fd,
				  .without_build_id = copy->without_build_id,
				  .size = copy->size,
				  .piece = piece,
				  .end = END_FAILED};
	struct hash128 hash;
	if (!piece) {
		error_nomem(err);
		return END_FAILED;
	}
	if (hash128_file(copy->fd, copy->from, &hash, err) < 0)
		return END_FAILED;
	snprintf(sending.hash, sizeof(sending.hash), "%016llx%016llx", (unsigned long long)hash.high,
		 (unsigned long long)hash.low);
	while (!sending.is_over && !cancel_requested(&uploader->stop)) {
		if (!sending.id[0])
			begin(&sending);
		else if (sending.offset < sending.size)
			put(&sending);
		else
			finish(&sending);
		rest(uploader);
	}
	if (sending.err.message[0])
		*err = sending.err;
	return sending.end;
}

/* ---- sending what an item stands for ---- */

static bool is_alt_known(const struct uploader *uploader, const char *build_id)
{
	for (size_t i = 0; i < ALTS_REMEMBERED; i++) {
		if (strcmp(uploader->alts[i], build_id) == 0)
			return true;
	}
	return false;
}

/* Before the file that refers to it, so that the server finds both. Without it the other is still worth something. */
static void send_alt(struct uploader *uploader, const struct debug_copy_request *of, const struct debug_copy *copy)
{
	struct debug_copy_request request = *of;
	struct debug_copy alt;
	struct error err = {0};
	if (!build_id_is_valid(copy->alt_build_id) || is_alt_known(uploader, copy->alt_build_id))
		return;
	const struct upload_key key = {.id = copy->alt_build_id};
	request.build_id = copy->alt_build_id;
	request.path = copy->alt_path;
	int r = debug_copy_make_alt(&request, &alt, &err);
	rest(uploader);
	if (r < 0)
		return;
	enum end end = send_file(uploader, &key, upload_what_kinds[UPLOAD_BINARY], &alt, &err);
	if (end == END_SENT || end == END_NOT_NEEDED) {
		memcpy(uploader->alts[uploader->alt_next], copy->alt_build_id, sizeof(uploader->alts[0]));
		uploader->alt_next = (uploader->alt_next + 1) % ALTS_REMEMBERED;
	}
	uploader->batch_bytes += end == END_SENT ? alt.size : 0;
	debug_copy_release(&alt);
}

static enum end send_binary(struct uploader *uploader, const struct upload_item *item, struct error *err)
{
	const struct upload_key key = {.id_type = item->id_type, .id = item->build_id, .content = item->content};
	struct debug_copy_request request = {.build_id = item->build_id,
					     .content = item->content,
					     .path = item->path,
					     .pid = item->pid,
					     .fd = item->fd,
					     .bytes_max = uploader->options.file_bytes_max,
					     .directory = uploader->options.directory};
	struct debug_copy copy;
	int r = debug_copy_make(&request, &copy, err);
	rest(uploader);
	if (r < 0)
		return r == -ENOMEM || r == -ENOSPC || r == -EMFILE || r == -ENFILE ? END_FAILED : END_NOT_NEEDED;
	send_alt(uploader, &request, &copy);
	enum end end = cancel_requested(&uploader->stop)
			       ? END_FAILED
			       : send_file(uploader, &key, upload_what_kinds[UPLOAD_BINARY], &copy, err);
	uploader->batch_bytes += end == END_SENT ? copy.size : 0;
	debug_copy_release(&copy);
	return end;
}

/* Names of modules, BPF programs and trampolines are not in it: their addresses mean nothing elsewhere. */
static enum end send_kernel(struct uploader *uploader, const struct upload_item *item, struct error *err)
{
	_cleanup_(kallsyms_freep) struct kallsyms *kallsyms = NULL;
	struct debug_copy copy = {.from = "/proc/kallsyms"};
	const struct upload_key key = {.id = item->build_id};
	bool in_memory;
	copy.fd = debug_copy_open_temporary(uploader->options.directory, &in_memory, err);
	if (copy.fd < 0)
		return END_FAILED;
	int r = kallsyms_load(&kallsyms, err);
	if (r == 0)
		r = kallsyms_write_core(kallsyms, item->build_id, copy.fd, &copy.size, err);
	kallsyms = kallsyms_free(kallsyms);
	rest(uploader);
	enum end end = r < 0 ? END_NOT_NEEDED : send_file(uploader, &key, upload_what_kinds[UPLOAD_KERNEL], &copy, err);
	uploader->batch_bytes += end == END_SENT ? copy.size : 0;
	debug_copy_release(&copy);
	uploader->is_kernel_refused = end != END_SENT && err->message[0];
	return end;
}

static void send(struct uploader *uploader, struct upload_item *item)
{
	struct error err = {0};
	enum end end = item->what == UPLOAD_KERNEL ? send_kernel(uploader, item, &err) : send_binary(uploader, item, &err);
	int64_t now_ns = time_monotonic_ns();
	if (cancel_requested(&uploader->stop)) {
		upload_queue_done(uploader->queue, item, UPLOAD_DONE, now_ns);
		return;
	}
	bool has_failed = end == END_FAILED || (end == END_NOT_NEEDED && err.message[0]);
	uploader->batch_sent += end == END_SENT;
	uploader->batch_failed += has_failed;
	if (has_failed)
		snprintf(uploader->batch_why, sizeof(uploader->batch_why), "%.200s", err.message);
	if (end == END_FAILED && item->tries + 1 < FILE_TRIES)
		upload_queue_done(uploader->queue, item, UPLOAD_FAILED, now_ns + FILE_PAUSE_NS * (item->tries + 1));
	else if (end == END_BUSY)
		upload_queue_done(uploader->queue, item, UPLOAD_BUSY, now_ns + BUSY_PAUSE_NS);
	else if (end == END_SENT && item->what == UPLOAD_KERNEL) /* not before the server can name it */
		upload_queue_done(uploader->queue, item, UPLOAD_BUSY, now_ns + KERNEL_PAUSE_NS);
	else
		upload_queue_done(uploader->queue, item, UPLOAD_DONE, now_ns + AGAIN_NS);
	note_kernel(uploader);
}

/* Once all that was wanted has had its turn. */
static void log_progress(struct uploader *uploader)
{
	char size[TEXT_NUMBER_MAX];
	if (uploader->batch_sent)
		log_info("debug information of %llu binaries was sent, %s", (unsigned long long)uploader->batch_sent,
			 text_format_size(uploader->batch_bytes, size));
	if (uploader->batch_failed)
		log_info("debug information of %llu binaries could not be sent; last error: %s",
			 (unsigned long long)uploader->batch_failed, uploader->batch_why);
	uploader->batch_sent = uploader->batch_failed = uploader->batch_bytes = 0;
}

/* ---- the thread ---- */

/* Questions go before files: they are few, and what one file after the other is sent for may take hours. */
static void step(struct uploader *uploader)
{
	struct upload_item item;
	int64_t ask_ns, send_ns, now_ns = time_monotonic_ns(), may_ask_ns = next_ask_ns(uploader);
	upload_queue_next(uploader->queue, &ask_ns, &send_ns);
	if (ask_ns != UPLOAD_NEVER && ask_ns < may_ask_ns)
		ask_ns = may_ask_ns;
	if (ask_ns <= now_ns) {
		ask(uploader, now_ns);
		rest(uploader);
		return;
	}
	if (upload_queue_take(uploader->queue, now_ns, &item)) {
		send(uploader, &item);
		return;
	}
	log_progress(uploader);
	int64_t next_ns = ask_ns < send_ns ? ask_ns : send_ns;
	wait_until(uploader, next_ns < now_ns + AGAIN_NS ? next_ns : now_ns + AGAIN_NS, true);
}

static void *uploader_run(void *context)
{
	struct uploader *uploader = context;
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
	uploader->asked_ns = time_monotonic_ns(); /* the first binaries come in a crowd */
	while (!cancel_requested(&uploader->stop) && !atomic_load(&uploader->has_given_up))
		step(uploader);
	return NULL;
}

static int copy_options(struct uploader *uploader, const struct uploader_options *options, struct error *err)
{
	uploader->options = *options;
	snprintf(uploader->kernel, sizeof(uploader->kernel), "%s", options->kernel_build_id ? options->kernel_build_id : "");
	uploader->directory = options->directory ? mem_strdup(options->directory) : NULL;
	if (options->directory && !uploader->directory)
		return error_nomem(err);
	uploader->options.directory = uploader->directory;
	if (!uploader->options.rate)
		uploader->options.rate = UPLOADER_RATE_DEFAULT;
	if (!uploader->options.file_bytes_max)
		uploader->options.file_bytes_max = UPLOADER_FILE_BYTES_DEFAULT;
	return 0;
}

int uploader_new(const struct uploader_options *options, struct uploader **ret, struct error *err)
{
	struct uploader *uploader = mem_zalloc(sizeof(*uploader));
	if (!uploader)
		return error_nomem(err);
	pthread_mutex_init(&uploader->lock, NULL);
	thread_condition_init(&uploader->wake);
	uploader->budget = (struct cpu_budget){.burst_ns = COST_BURST_NS, .part = COST_FACTOR};
	int r = copy_options(uploader, options, err);
	struct net_client_options client = {.url = options->url,
					    .token = options->token,
					    .token_file = options->token_file,
					    .tenant = options->tenant,
					    .timeout_ns = CALL_TIMEOUT_NS,
					    .response_max = MIB,
					    .shared = true,
					    .cancel = &uploader->stop};
	if (r == 0)
		r = net_client_new(&client, &uploader->client, err);
	if (r == 0)
		r = upload_queue_new(&uploader->queue, err);
	if (r == 0 && uploader->kernel[0] && !options->tells_only)
		r = upload_queue_add(uploader->queue, UPLOAD_KERNEL, &(struct upload_key){.id = uploader->kernel},
				     "[kernel.kallsyms]", 0, -1);
	if (r == 0)
		r = thread_start(&uploader->thread, "wick-uploader", uploader_run, uploader, err);
	uploader->running = r == 0;
	if (r < 0)
		uploader_free(uploader);
	else
		*ret = uploader;
	return r;
}

struct uploader *uploader_free(struct uploader *uploader)
{
	if (!uploader)
		return NULL;
	pthread_mutex_lock(&uploader->lock);
	cancel_request(&uploader->stop);
	pthread_cond_signal(&uploader->wake);
	pthread_mutex_unlock(&uploader->lock);
	if (uploader->running)
		pthread_join(uploader->thread, NULL);
	net_client_free(uploader->client);
	upload_queue_free(uploader->queue);
	pthread_cond_destroy(&uploader->wake);
	pthread_mutex_destroy(&uploader->lock);
	mem_free(uploader->directory);
	return mem_free(uploader);
}

void uploader_see(struct uploader *uploader, const struct agent_binary *binary)
{
	const struct upload_key key = {
		.id_type = binary->id_type, .id = binary->build_id, .content = binary->content, .code = binary->code};
	if (atomic_load(&uploader->has_given_up))
		return;
	/* What has no room is counted there. */
	upload_queue_add(uploader->queue, UPLOAD_BINARY, &key, binary->path, binary->pid, binary->fd);
	THREAD_LOCK_SCOPE(&uploader->lock);
	uploader->woken = true;
	pthread_cond_signal(&uploader->wake);
}

const atomic_bool *uploader_server_names_kernel(const struct uploader *uploader)
{
	return &uploader->names_kernel;
}
