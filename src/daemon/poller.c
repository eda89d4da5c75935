/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread does it all by turns: ask, look after the recorder, send what it made. States go one way, as orders.h lists them;
 * the last one is told to the server until it has heard it.
 *
 * Times of an order are the server's; the recorder gets them as this host's clock will show them, so that all hosts begin at
 * the same moment whatever their clocks say.
 */
#include "daemon/poller.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock_fit.h"
#include "base/clock_steps.h"
#include "base/io.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"
#include "control/pings.h"
#include "daemon/ordered.h"
#include "net/net.h"

#define CALL_TIMEOUT_NS	  (10 * NS_PER_S)
#define SEND_TIMEOUT_NS	  (300 * NS_PER_S)
#define PAUSE_MIN_NS	  (5 * NS_PER_S) /* after questions without an answer */
#define PAUSE_MAX_NS	  (60 * NS_PER_S)
#define ELSEWHERE_NS	  (600 * NS_PER_S) /* the server knows no orders: it may be another version by then */
#define LOADING_NS	  (3 * NS_PER_S)   /* the recorder needs to be ready; a part of a second where there is no load */
#define LOOK_NS		  (250 * NS_PER_MS)
#define SEND_PAUSE_MIN_NS NS_PER_S
#define SEND_PAUSE_MAX_NS (30 * NS_PER_S)
#define SEND_GIVE_UP_NS	  (600 * NS_PER_S)
#define DURATION_MIN_NS	  (100 * NS_PER_MS)
#define WAIT_MAX_NS	  (600 * NS_PER_S) /* for an order's time */
#define RECORDER_LAST_NS  (900 * NS_PER_S) /* after the end of its time: it looks up symbols, but not for ever */
#define PATH_BYTES_MAX	  (4 * 1024)
#define HEALTH_NS	  (60 * NS_PER_S) /* between two reports of how the agent is */
#define HEALTH_SOON_NS	  (10 * NS_PER_S) /* after the first one, which says little */

struct poller {
	char *url, *token, *tenant, *directory;
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	atomic_bool stop; /* the clients poll it */

	/* of the thread */
	struct net_client *net;
	struct orders_question question;
	struct pings pings; /* changed with the lock: others ask for the clock */
	struct clock_steps steps;
	int64_t poll_due_ns, poll_pause_ns; /* monotonic */
	bool was_told;			    /* that there are no orders here, or that the token is wrong */
	void (*fill_health)(void *context, struct health *ret);
	void *health_context;
	int64_t health_due_ns;		       /* monotonic */
	char health_reader[ORDERS_CLOCK_SIZE]; /* which server has it: by its clock, which has another name after a start */

	bool has_order;
	struct orders_order order;
	enum orders_state state;
	char why[ORDERS_TEXT_SIZE];
	char last[ORDERS_ID_SIZE];	 /* the order before: over, whatever an answer that was under way says */
	char last_why[ORDERS_TEXT_SIZE]; /* it failed; a server that asks again has forgotten it in a crash */
	struct ordered child;
	int64_t begin_due_ns, give_up_ns, send_due_ns, send_pause_ns, send_until_ns; /* monotonic */
	int64_t from_ns, to_ns; /* of the recording, wall clock of this host */
};

static bool is_stopped(const struct poller *poller)
{
	return cancel_requested(&poller->stop);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---- the order ---- */

static void set_state(struct poller *poller, enum orders_state state, const char *why)
{
	poller->state = state;
	snprintf(poller->why, sizeof(poller->why), "%s", why);
	poller->poll_due_ns = 0; /* who waits for it should know */
}

static void fail(struct poller *poller, const char *why)
{
	_cleanup_(buffer_release) struct buffer safe = {0};
	char line[ORDERS_TEXT_SIZE] = "";
	/* The server refuses what is no text of this length, and would then never hear of it. */
	buffer_init(&safe, 16 * ORDERS_TEXT_SIZE);
	if (text_append_harmless(&safe, bytes_of_string(why)) == 0)
		snprintf(line, sizeof(line), "%.*s", (int)text_cut(buffer_bytes(&safe), sizeof(line) - 1),
			 (const char *)safe.data);
	log_warn("recording %s failed: %s", poller->order.id, line);
	ordered_release(&poller->child);
	set_state(poller, ORDERS_FAILED, line);
}

static void forget_order(struct poller *poller)
{
	ordered_release(&poller->child);
	poller->has_order = false;
	memcpy(poller->last, poller->order.id, sizeof(poller->last));
	snprintf(poller->last_why, sizeof(poller->last_why), "%s", poller->state == ORDERS_FAILED ? poller->why : "");
}

struct orders_clock poller_clock(struct poller *poller, int64_t from_ns, int64_t to_ns)
{
	pthread_mutex_lock(&poller->lock);
	struct orders_clock clock = pings_fit(&poller->pings, from_ns, to_ns);
	pthread_mutex_unlock(&poller->lock);
	return clock;
}

/* What this host's clock shows at a time of the server's. */
static int64_t host_time(const struct poller *poller, int64_t server_ns)
{
	int64_t now_ns = time_now_ns();
	struct orders_clock clock = pings_fit(&poller->pings, now_ns, now_ns);
	struct clock_line line = {clock.at_ns, clock.offset_ns, clock.skew};
	return clock_line_apply(clock_line_invert(line), server_ns);
}

static void take_order(struct poller *poller, const struct orders_order *order)
{
	bool is_again = strcmp(order->id, poller->last) == 0;
	if (poller->has_order || (is_again && !poller->last_why[0]))
		return;
	poller->has_order = true;
	poller->order = *order;
	poller->child = ORDERED_NONE;
	if (is_again) {
		set_state(poller, ORDERS_FAILED, poller->last_why);
		return;
	}
	int64_t now_ns = time_now_ns(), from_ns = host_time(poller, order->start_ns);
	bool is_far = from_ns > now_ns + WAIT_MAX_NS;
	if (is_far)
		from_ns = now_ns;
	poller->from_ns = from_ns;
	poller->to_ns = from_ns + order->duration_ns;
	poller->begin_due_ns = time_monotonic_ns() + (from_ns - now_ns) - LOADING_NS;
	log_info("recording %s: %lld ms at %u Hz requested", order->id, (long long)(order->duration_ns / NS_PER_MS),
		 order->frequency_hz);
	if (poller->question.refusal[0])
		fail(poller, poller->question.refusal);
	else if (is_far)
		fail(poller, "start time is too far in the future");
	else
		set_state(poller, ORDERS_TAKEN, "");
}

static void begin(struct poller *poller)
{
	struct error err = {0};
	int64_t now_ns = time_now_ns();
	if (poller->from_ns < now_ns)
		poller->from_ns = now_ns;
	if (poller->to_ns - poller->from_ns < DURATION_MIN_NS) {
		fail(poller, "the recording request arrived after its end time");
		return;
	}
	poller->give_up_ns = time_monotonic_ns() + (poller->to_ns - now_ns) + RECORDER_LAST_NS;
	int r = ordered_start(&poller->child, &poller->order, poller->from_ns, poller->to_ns - poller->from_ns,
			      poller->directory, &err);
	if (r < 0)
		fail(poller, err.message);
	else
		set_state(poller, ORDERS_RECORDING, "");
}

static void look_after(struct poller *poller)
{
	struct error err = {0};
	int r = ordered_check(&poller->child, &err);
	if (r > 0 && time_monotonic_ns() > poller->give_up_ns)
		r = error_set(&err, -ETIMEDOUT, "recorder did not exit in time");
	if (r > 0)
		return;
	if (r < 0) {
		fail(poller, err.message);
		return;
	}
	poller->send_until_ns = time_monotonic_ns() + SEND_GIVE_UP_NS;
	poller->send_due_ns = poller->send_pause_ns = 0;
	set_state(poller, ORDERS_SENDING, "");
}

/* ---- sending ---- */

void poller_put_clock(struct buffer *out, const struct orders_clock *clock, char separator)
{
	if (clock->reference[0])
		buffer_printf(out, "%creference=%s&at_ns=%lld&offset_ns=%lld&bound_ns=%lld&skew=%.17g", separator,
			      clock->reference, (long long)clock->at_ns, (long long)clock->offset_ns,
			      (long long)clock->bound_ns, clock->skew);
}

/* NULL without memory. */
static const char *make_path(const struct poller *poller, struct buffer *out)
{
	struct orders_clock clock = pings_fit(&poller->pings, poller->from_ns, poller->to_ns);
	buffer_printf(out, ORDERS_RECORDINGS_PATH "/%s/hosts/", poller->order.id);
	text_url_encode(out, bytes_of_string(poller->question.host));
	poller_put_clock(out, &clock, '?');
	return buffer_string(out);
}

/* The file is mapped, so that it is never in the agent's memory as a whole. */
static int send_file(struct poller *poller, int *ret_status, char *ret_said, size_t said_size, struct error *err)
{
	_cleanup_(net_client_freep) struct net_client *net = NULL;
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	_cleanup_(buffer_release) struct buffer path = {0};
	_cleanup_(fd_closep) int fd = io_open(poller->child.path, O_RDONLY, 0, err);
	struct net_client_options options = {.url = poller->url,
					     .token = poller->token,
					     .tenant = poller->tenant,
					     .timeout_ns = SEND_TIMEOUT_NS,
					     .response_max = ORDERS_BODY_BYTES_MAX,
					     .cancel = &poller->stop};
	uint64_t size = 0;
	net_client_response_init(&response);
	buffer_init(&path, PATH_BYTES_MAX);
	int r = fd < 0 ? fd : io_file_size(fd, &size, poller->child.path, err);
	const char *call = make_path(poller, &path);
	if (r == 0 && !call)
		r = error_nomem(err);
	if (r == 0)
		r = net_client_new(&options, &net, err);
	if (r == 0 && poller->order.key[0])
		r = net_client_set_header(net, ORDERS_KEY_HEADER, poller->order.key, err);
	if (r < 0)
		return r;
	void *data = mmap(NULL, size ? size : 1, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return error_set_errno(err, -errno, "cannot map %s", poller->child.path);
	r = net_client_request(net, "POST", call, "application/gzip", (struct bytes){data, size}, NET_PLAIN, &response, err);
	munmap(data, size ? size : 1);
	*ret_status = response.status;
	snprintf(ret_said, said_size, "%.*s", (int)(response.body.len < 300 ? response.body.len : 300),
		 response.body.len ? (const char *)response.body.data : "");
	return r;
}

static void send_recording(struct poller *poller)
{
	struct error err = {0};
	char said[ORDERS_TEXT_SIZE], why[ORDERS_TEXT_SIZE + 64];
	int status = 0;
	int r = send_file(poller, &status, said, sizeof(said), &err);
	if (is_stopped(poller))
		return;
	/* 409: it arrived the last time, and only the answer did not. */
	if (r == 0 && (status == 200 || status == 409)) {
		log_info("recording %s was sent", poller->order.id);
		forget_order(poller);
		return;
	}
	if (r == 0)
		snprintf(why, sizeof(why), "the server responded with status %d: %s", status, said);
	else
		snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, err.message);
	bool is_refused = r == 0 && status < 500 && status != 408 && status != 429;
	if (is_refused || time_monotonic_ns() > poller->send_until_ns) {
		fail(poller, why);
		return;
	}
	poller->send_pause_ns = poller->send_pause_ns ? least(2 * poller->send_pause_ns, SEND_PAUSE_MAX_NS) : SEND_PAUSE_MIN_NS;
	poller->send_due_ns = time_monotonic_ns() + poller->send_pause_ns;
	log_debug("recording %s is not sent yet: %s", poller->order.id, why);
}

static void work(struct poller *poller)
{
	int64_t now_ns = time_monotonic_ns();
	if (!poller->has_order)
		return;
	if (poller->state == ORDERS_TAKEN && now_ns >= poller->begin_due_ns)
		begin(poller);
	else if (poller->state == ORDERS_RECORDING)
		look_after(poller);
	else if (poller->state == ORDERS_SENDING && now_ns >= poller->send_due_ns)
		send_recording(poller);
}

/* ---- asking ---- */

/* True if the wall clock was set; whatever was measured before means nothing then. */
static bool look_at_clock(struct poller *poller)
{
	if (!clock_steps_look_now(&poller->steps))
		return false;
	log_info("the wall clock was set; its offset to the server's clock is measured again");
	pthread_mutex_lock(&poller->lock);
	pings_forget(&poller->pings);
	pthread_mutex_unlock(&poller->lock);
	poller->question.has_ping = false;
	return true;
}

static void tell(struct poller *poller, const char *text)
{
	if (!poller->was_told)
		log_info("%s", text);
	poller->was_told = true;
}

static void take_answer(struct poller *poller, const struct orders_answer *answer)
{
	for (size_t i = 0; i < answer->cancel_count; i++) {
		if (poller->has_order && strcmp(answer->cancelled[i], poller->order.id) == 0) {
			log_info("recording %s was cancelled", poller->order.id);
			forget_order(poller);
		}
	}
	/* The server knows now. */
	if (poller->has_order && poller->state == ORDERS_FAILED && poller->question.report.state == ORDERS_FAILED)
		forget_order(poller);
	poller->poll_pause_ns = 0;
	poller->was_told = false;
	poller->poll_due_ns = time_monotonic_ns() + answer->poll_ns;
	if (*poller->health_reader && strcmp(poller->health_reader, answer->clock) != 0)
		poller->health_due_ns = 0;
	if (answer->has_order)
		take_order(poller, &answer->order);
}

static void fill_question(struct poller *poller)
{
	struct orders_question *question = &poller->question;
	int64_t now_ns = time_now_ns();
	question->clock = pings_fit(&poller->pings, now_ns, now_ns);
	question->report = (struct orders_report){0};
	if (!poller->has_order)
		return;
	memcpy(question->report.id, poller->order.id, sizeof(question->report.id));
	memcpy(question->report.why, poller->why, sizeof(question->report.why));
	question->report.state = poller->state;
}

/* A server that cannot take a report is not to be asked with one again soon: orders matter more. */
static void note_health(struct poller *poller, int r, int status, const struct orders_answer *answer)
{
	int64_t now_ns = time_monotonic_ns();
	if (r == 0 && (status == 400 || status == 413))
		poller->health_due_ns = now_ns + ELSEWHERE_NS;
	if (r < 0 || status != 200)
		return;
	poller->health_due_ns = now_ns + (*poller->health_reader ? HEALTH_NS : HEALTH_SOON_NS);
	memcpy(poller->health_reader, answer->clock, sizeof(poller->health_reader));
}

static int ask(struct poller *poller, int *ret_status, struct orders_answer *answer, struct error *err)
{
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	_cleanup_(buffer_release) struct buffer question = {0};
	struct health health = {0};
	struct orders_ping ping;
	net_client_response_init(&response);
	buffer_init(&question, ORDERS_BODY_BYTES_MAX);
	fill_question(poller);
	bool with_health = poller->fill_health && time_monotonic_ns() >= poller->health_due_ns;
	if (with_health)
		poller->fill_health(poller->health_context, &health);
	poller->question.health = with_health ? &health : NULL;
	int r = orders_write_question(&poller->question, &question, err);
	poller->question.health = NULL;
	if (r < 0)
		return r;
	ping.sent_ns = time_now_ns();
	r = net_client_request(poller->net, "POST", ORDERS_POLL_PATH, "application/json", buffer_bytes(&question), NET_PLAIN,
			       &response, err);
	ping.returned_ns = time_now_ns();
	*ret_status = r < 0 ? 0 : response.status;
	if (r == 0 && response.status == 200)
		r = orders_read_answer(buffer_bytes(&response.body), answer, err);
	if (with_health)
		note_health(poller, r, *ret_status, answer);
	if (r < 0 || *ret_status != 200 || look_at_clock(poller))
		return r;
	ping.received_ns = answer->received_ns;
	ping.answered_ns = answer->answered_ns;
	pthread_mutex_lock(&poller->lock);
	pings_add(&poller->pings, answer->clock, &ping);
	pthread_mutex_unlock(&poller->lock);
	poller->question.ping = ping;
	poller->question.has_ping = true;
	return 0;
}

static void poll_server(struct poller *poller)
{
	struct orders_answer answer;
	struct error err = {0};
	int status = 0;
	look_at_clock(poller);
	int r = ask(poller, &status, &answer, &err);
	if (is_stopped(poller))
		return;
	if (r == 0 && status == 200) {
		take_answer(poller, &answer);
		return;
	}
	poller->poll_pause_ns = poller->poll_pause_ns ? least(2 * poller->poll_pause_ns, PAUSE_MAX_NS) : PAUSE_MIN_NS;
	if (status == 404 || status == 405 || status == 415 || status == 501) {
		tell(poller, "the server does not support remote recording: not a wick server, or an older one");
		poller->poll_pause_ns = ELSEWHERE_NS;
	} else if (status == 401 || status == 403) {
		tell(poller, "the server denies this agent access to recording requests");
	} else {
		log_debug("cannot poll for recording requests: %s (%d)", err.message, status);
	}
	poller->poll_due_ns = time_monotonic_ns() + poller->poll_pause_ns;
}

/* ---- life ---- */

static int64_t next_due_ns(const struct poller *poller)
{
	int64_t due_ns = poller->poll_due_ns;
	if (!poller->has_order)
		return due_ns;
	switch (poller->state) {
	case ORDERS_TAKEN: return least(due_ns, poller->begin_due_ns);
	case ORDERS_RECORDING: return least(due_ns, time_monotonic_ns() + LOOK_NS);
	case ORDERS_SENDING: return least(due_ns, poller->send_due_ns);
	default: return due_ns;
	}
}

static void wait_until(struct poller *poller, int64_t until_ns)
{
	pthread_mutex_lock(&poller->lock);
	while (!is_stopped(poller) && thread_wait_until(&poller->wake, &poller->lock, until_ns))
		;
	pthread_mutex_unlock(&poller->lock);
}

static void *run(void *context)
{
	struct poller *poller = context;
	while (!is_stopped(poller)) {
		if (time_monotonic_ns() >= poller->poll_due_ns)
			poll_server(poller);
		if (!is_stopped(poller))
			work(poller);
		wait_until(poller, next_due_ns(poller));
	}
	if (poller->has_order)
		forget_order(poller);
	return NULL;
}

/* Where recordings lie until they are sent: beside the profiles that wait, where nothing may have waited yet. */
static const char *choose_directory(const char *wanted)
{
	const char *temporary = getenv("TMPDIR");
	if (wanted && io_make_dirs(wanted, 0700, NULL) == 0 && access(wanted, W_OK | X_OK) == 0)
		return wanted;
	return temporary && *temporary ? temporary : "/tmp";
}

static int fill(struct poller *poller, const struct poller_options *options, struct error *err)
{
	pthread_mutex_init(&poller->lock, NULL);
	thread_condition_init(&poller->wake);
	poller->child = ORDERED_NONE;
	poller->url = mem_strdup(options->url);
	poller->token = options->token ? mem_strdup(options->token) : NULL;
	poller->tenant = options->tenant ? mem_strdup(options->tenant) : NULL;
	poller->directory = mem_strdup(choose_directory(options->directory));
	poller->fill_health = options->health;
	poller->health_context = options->context;
	if (!poller->url || (options->token && !poller->token) || (options->tenant && !poller->tenant) || !poller->directory)
		return error_nomem(err);
	int r = orders_make_id(poller->question.agent, sizeof(poller->question.agent) / 2, err);
	if (r < 0)
		return r;
	if (!orders_host_is_valid(options->host))
		return error_set(err, -EINVAL, "'%.100s' is not a valid host name", options->host);
	snprintf(poller->question.host, sizeof(poller->question.host), "%s", options->host);
	snprintf(poller->question.wick, sizeof(poller->question.wick), "%s", WICK_VERSION);
	snprintf(poller->question.refusal, sizeof(poller->question.refusal), "%s", options->refusal ? options->refusal : "");
	return 0;
}

int poller_new(const struct poller_options *options, struct poller **ret, struct error *err)
{
	_cleanup_(poller_freep) struct poller *poller = mem_zalloc(sizeof(*poller));
	if (!poller)
		return error_nomem(err);
	int r = fill(poller, options, err);
	struct net_client_options net = {.url = poller->url,
					 .token = poller->token,
					 .tenant = poller->tenant,
					 .timeout_ns = CALL_TIMEOUT_NS,
					 .response_max = ORDERS_BODY_BYTES_MAX,
					 .cancel = &poller->stop};
	if (r == 0)
		r = net_client_new(&net, &poller->net, err);
	if (r == 0)
		ordered_sweep(poller->directory);
	if (r == 0)
		r = thread_start(&poller->thread, "wick-orders", run, poller, err);
	if (r < 0)
		return r;
	poller->running = true;
	*ret = poller;
	poller = NULL;
	return 0;
}

struct poller *poller_free(struct poller *poller)
{
	if (!poller)
		return NULL;
	pthread_mutex_lock(&poller->lock);
	cancel_request(&poller->stop);
	pthread_cond_signal(&poller->wake);
	pthread_mutex_unlock(&poller->lock);
	if (poller->running)
		pthread_join(poller->thread, NULL);
	net_client_free(poller->net);
	pthread_mutex_destroy(&poller->lock);
	pthread_cond_destroy(&poller->wake);
	mem_free(poller->url);
	mem_free(poller->token);
	mem_free(poller->tenant);
	mem_free(poller->directory);
	return mem_free(poller);
}
