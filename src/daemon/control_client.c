/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread does everything in turns: it polls the server, checks the recorder and sends the profile. States advance in the
 * order of protocol.h; the last one is reported until the server has acknowledged it.
 *
 * Times of a recording request are the server's; the recorder gets them as this host's clock will show them, so that all hosts
 * begin at the same moment whatever their clocks say.
 */
#include "daemon/control_client.h"

#include <errno.h>
#include <fcntl.h>
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
#include "control/clock_sync.h"
#include "daemon/recording_runner.h"
#include "net/net.h"

#define CALL_TIMEOUT_NS	  (10 * NS_PER_S)
#define SEND_TIMEOUT_NS	  (300 * NS_PER_S)
#define PAUSE_MIN_NS	  (5 * NS_PER_S)   /* after polls without a reply */
#define ELSEWHERE_NS	  (600 * NS_PER_S) /* the server does not support recordings: it may be another version by then */
#define LOADING_NS	  (3 * NS_PER_S)   /* the recorder needs to be ready; a part of a second where there is no load */
#define CHECK_INTERVAL_NS (250 * NS_PER_MS)
#define SEND_PAUSE_MIN_NS NS_PER_S
#define SEND_PAUSE_MAX_NS (30 * NS_PER_S)
#define SEND_GIVE_UP_NS	  (600 * NS_PER_S)
#define DURATION_MIN_NS	  (100 * NS_PER_MS)
#define WAIT_MAX_NS	  (600 * NS_PER_S) /* for the start time of a request */
#define RECORDER_LAST_NS  (900 * NS_PER_S) /* after the end of its time: it looks up symbols, but not for ever */
#define PATH_BYTES_MAX	  (4 * 1024)
#define HEALTH_NS	  (60 * NS_PER_S) /* between two reports of how the agent is */
#define HEALTH_SOON_NS	  (10 * NS_PER_S) /* after the first one, which says little */

struct control_client {
	char *url, *token, *token_file, *tenant, *directory;
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	atomic_bool stop; /* the clients poll it */

	/* of the thread */
	struct net_client *net;
	struct control_poll poll;
	struct clock_sync sync; /* changed with the lock: other threads read the clock */
	struct clock_steps steps;
	int64_t poll_due_ns, poll_pause_ns; /* monotonic */
	bool is_logged;			    /* that recordings are not supported, or that the token is wrong */
	void (*fill_health)(void *context, struct health *ret);
	void *health_context;
	int64_t health_due_ns;			/* monotonic */
	char health_reader[CONTROL_CLOCK_SIZE]; /* which server has it: by its clock, which has another name after a start */

	bool has_request;
	struct recording_request request;
	enum recording_state state;
	char why[CONTROL_TEXT_SIZE];
	char last[CONTROL_ID_SIZE];	  /* the request before: over, whatever a reply that was under way contains */
	char last_why[CONTROL_TEXT_SIZE]; /* it failed; a server that asks again has forgotten it in a crash */
	struct recording_runner runner;
	int64_t begin_due_ns, give_up_ns, send_due_ns, send_pause_ns, send_until_ns; /* monotonic */
	int64_t from_ns, to_ns; /* of the recording, wall clock of this host */
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---- the recording request ---- */

static void set_state(struct control_client *client, enum recording_state state, const char *why)
{
	client->state = state;
	snprintf(client->why, sizeof(client->why), "%s", why);
	client->poll_due_ns = 0; /* who waits for it should know */
}

static void fail(struct control_client *client, const char *why)
{
	_cleanup_(buffer_release) struct buffer safe = {.max = 16 * CONTROL_TEXT_SIZE};
	char line[CONTROL_TEXT_SIZE] = "";
	/* The server rejects texts that are longer or malformed, and would then never get the report. */
	if (text_append_harmless(&safe, bytes_of_string(why)) == 0)
		snprintf(line, sizeof(line), "%.*s", (int)text_cut(buffer_bytes(&safe), sizeof(line) - 1),
			 (const char *)safe.data);
	log_warn("recording %s failed: %s", client->request.id, line);
	recording_runner_release(&client->runner);
	set_state(client, RECORDING_FAILED, line);
}

static void forget_request(struct control_client *client)
{
	recording_runner_release(&client->runner);
	client->has_request = false;
	memcpy(client->last, client->request.id, sizeof(client->last));
	snprintf(client->last_why, sizeof(client->last_why), "%s", client->state == RECORDING_FAILED ? client->why : "");
}

struct host_clock control_client_clock(struct control_client *client, int64_t from_ns, int64_t to_ns)
{
	THREAD_LOCK_SCOPE(&client->lock);
	return clock_sync_fit(&client->sync, from_ns, to_ns);
}

/* What this host's clock shows at a time of the server's. */
static int64_t host_time(const struct control_client *client, int64_t server_ns)
{
	int64_t now_ns = time_now_ns();
	struct host_clock clock = clock_sync_fit(&client->sync, now_ns, now_ns);
	struct clock_line line = {clock.at_ns, clock.offset_ns, clock.skew};
	return clock_line_apply(clock_line_invert(line), server_ns);
}

static void take_request(struct control_client *client, const struct recording_request *request)
{
	bool is_again = strcmp(request->id, client->last) == 0;
	if (client->has_request || (is_again && !client->last_why[0]))
		return;
	client->has_request = true;
	client->request = *request;
	client->runner = RECORDING_RUNNER_NONE;
	if (is_again) {
		set_state(client, RECORDING_FAILED, client->last_why);
		return;
	}
	int64_t now_ns = time_now_ns(), from_ns = host_time(client, request->start_ns);
	bool is_far = from_ns > now_ns + WAIT_MAX_NS;
	if (is_far)
		from_ns = now_ns;
	client->from_ns = from_ns;
	client->to_ns = from_ns + request->duration_ns;
	client->begin_due_ns = time_monotonic_ns() + (from_ns - now_ns) - LOADING_NS;
	log_info("recording %s: %lld ms at %u Hz requested", request->id, (long long)(request->duration_ns / NS_PER_MS),
		 request->frequency_hz);
	if (client->poll.refusal[0])
		fail(client, client->poll.refusal);
	else if (is_far)
		fail(client, "start time is too far in the future");
	else
		set_state(client, RECORDING_TAKEN, "");
}

static void begin(struct control_client *client)
{
	struct error err = {0};
	int64_t now_ns = time_now_ns();
	if (client->from_ns < now_ns)
		client->from_ns = now_ns;
	if (client->to_ns - client->from_ns < DURATION_MIN_NS) {
		fail(client, "the recording request arrived after its end time");
		return;
	}
	client->give_up_ns = time_monotonic_ns() + (client->to_ns - now_ns) + RECORDER_LAST_NS;
	int r = recording_runner_start(&client->runner, &client->request, client->from_ns, client->to_ns - client->from_ns,
				       client->directory, &err);
	if (r < 0)
		fail(client, err.message);
	else
		set_state(client, RECORDING_RUNNING, "");
}

static void check_recorder(struct control_client *client)
{
	struct error err = {0};
	int r = recording_runner_check(&client->runner, &err);
	if (r > 0 && time_monotonic_ns() > client->give_up_ns)
		r = error_set(&err, -ETIMEDOUT, "recorder did not exit in time");
	if (r > 0)
		return;
	if (r < 0) {
		fail(client, err.message);
		return;
	}
	client->send_until_ns = time_monotonic_ns() + SEND_GIVE_UP_NS;
	client->send_due_ns = client->send_pause_ns = 0;
	set_state(client, RECORDING_SENDING, "");
}

/* ---- sending ---- */

void control_client_put_clock(struct buffer *out, const struct host_clock *clock, char separator)
{
	if (clock->reference[0])
		buffer_printf(out, "%creference=%s&at_ns=%lld&offset_ns=%lld&bound_ns=%lld&skew=%.17g", separator,
			      clock->reference, (long long)clock->at_ns, (long long)clock->offset_ns,
			      (long long)clock->bound_ns, clock->skew);
}

/* NULL without memory. */
static const char *make_path(const struct control_client *client, struct buffer *out)
{
	struct host_clock clock = clock_sync_fit(&client->sync, client->from_ns, client->to_ns);
	buffer_printf(out, CONTROL_RECORDINGS_PATH "/%s/hosts/", client->request.id);
	text_url_encode(out, bytes_of_string(client->poll.host));
	control_client_put_clock(out, &clock, '?');
	return buffer_string(out);
}

static int open_net(struct control_client *client, int64_t timeout_ns, struct net_client **ret, struct error *err)
{
	struct net_client_options options = {.url = client->url,
					     .token = client->token,
					     .token_file = client->token_file,
					     .tenant = client->tenant,
					     .timeout_ns = timeout_ns,
					     .response_max = CONTROL_BODY_BYTES_MAX,
					     .shared = true,
					     .cancel = &client->stop};
	return net_client_new(&options, ret, err);
}

/* The file is mapped, so that it is never in the agent's memory as a whole. */
static int send_file(struct control_client *client, int *ret_status, char *ret_body, size_t body_size, struct error *err)
{
	_cleanup_(net_client_freep) struct net_client *net = NULL;
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	_cleanup_(buffer_release) struct buffer path = {.max = PATH_BYTES_MAX};
	_cleanup_(fd_closep) int fd = io_open(client->runner.path, O_RDONLY, 0, err);
	uint64_t size = 0;
	int r = fd < 0 ? fd : io_file_size(fd, &size, client->runner.path, err);
	const char *call = make_path(client, &path);
	if (r == 0 && !call)
		r = error_nomem(err);
	if (r == 0)
		r = open_net(client, SEND_TIMEOUT_NS, &net, err);
	if (r == 0 && client->request.key[0])
		r = net_client_set_header(net, CONTROL_KEY_HEADER, client->request.key, err);
	if (r < 0)
		return r;
	void *data = mmap(NULL, size ? size : 1, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return error_set_errno(err, -errno, "cannot map %s", client->runner.path);
	r = net_client_request(net, "POST", call, "application/gzip", (struct bytes){data, size}, NET_PLAIN, &response, err);
	munmap(data, size ? size : 1);
	*ret_status = response.status;
	snprintf(ret_body, body_size, "%.*s", (int)(response.body.len < 300 ? response.body.len : 300),
		 response.body.len ? (const char *)response.body.data : "");
	return r;
}

static void send_recording(struct control_client *client)
{
	struct error err = {0};
	char body[CONTROL_TEXT_SIZE], why[CONTROL_TEXT_SIZE + 64];
	int status = 0;
	int r = send_file(client, &status, body, sizeof(body), &err);
	if (cancel_requested(&client->stop))
		return;
	/* 409: it arrived the last time, and only the answer did not. */
	if (r == 0 && (status == 200 || status == 409)) {
		log_info("recording %s was sent", client->request.id);
		forget_request(client);
		return;
	}
	if (r == 0)
		snprintf(why, sizeof(why), "the server responded with status %d: %s", status, body);
	else
		snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, err.message);
	bool is_refused = r == 0 && status < 500 && status != 408 && status != 429;
	if (is_refused || time_monotonic_ns() > client->send_until_ns) {
		fail(client, why);
		return;
	}
	client->send_pause_ns = client->send_pause_ns ? least(2 * client->send_pause_ns, SEND_PAUSE_MAX_NS) : SEND_PAUSE_MIN_NS;
	client->send_due_ns = time_monotonic_ns() + client->send_pause_ns;
}

static void work(struct control_client *client)
{
	int64_t now_ns = time_monotonic_ns();
	if (!client->has_request)
		return;
	if (client->state == RECORDING_TAKEN && now_ns >= client->begin_due_ns)
		begin(client);
	else if (client->state == RECORDING_RUNNING)
		check_recorder(client);
	else if (client->state == RECORDING_SENDING && now_ns >= client->send_due_ns)
		send_recording(client);
}

/* ---- polling ---- */

/* True if the wall clock was set; whatever was measured before means nothing then. */
static bool check_clock(struct control_client *client)
{
	if (!clock_steps_check_now(&client->steps))
		return false;
	log_info("the wall clock was set; its offset to the server's clock is measured again");
	pthread_mutex_lock(&client->lock);
	clock_sync_forget(&client->sync);
	pthread_mutex_unlock(&client->lock);
	client->poll.has_clock_sample = false;
	return true;
}

static void log_once(struct control_client *client, const char *text)
{
	if (!client->is_logged)
		log_info("%s", text);
	client->is_logged = true;
}

static void take_reply(struct control_client *client, const struct control_reply *reply)
{
	for (size_t i = 0; i < reply->cancel_count; i++) {
		if (client->has_request && strcmp(reply->cancelled[i], client->request.id) == 0) {
			log_info("recording %s was cancelled", client->request.id);
			forget_request(client);
		}
	}
	/* The server knows now. */
	if (client->has_request && client->state == RECORDING_FAILED && client->poll.report.state == RECORDING_FAILED)
		forget_request(client);
	client->poll_pause_ns = 0;
	client->is_logged = false;
	client->poll_due_ns = time_monotonic_ns() + reply->poll_ns;
	if (*client->health_reader && strcmp(client->health_reader, reply->clock) != 0)
		client->health_due_ns = 0;
	if (reply->has_request)
		take_request(client, &reply->request);
}

static void fill_poll(struct control_client *client)
{
	struct control_poll *poll = &client->poll;
	int64_t now_ns = time_now_ns();
	poll->clock = clock_sync_fit(&client->sync, now_ns, now_ns);
	poll->report = (struct recording_report){0};
	if (!client->has_request)
		return;
	memcpy(poll->report.id, client->request.id, sizeof(poll->report.id));
	memcpy(poll->report.why, client->why, sizeof(poll->report.why));
	poll->report.state = client->state;
}

/* A server that cannot take a report does not get another one soon: recording requests matter more. */
static void note_health(struct control_client *client, int r, int status, const struct control_reply *reply)
{
	int64_t now_ns = time_monotonic_ns();
	if (r == 0 && (status == 400 || status == 413))
		client->health_due_ns = now_ns + ELSEWHERE_NS;
	if (r < 0 || status != 200)
		return;
	client->health_due_ns = now_ns + (*client->health_reader ? HEALTH_NS : HEALTH_SOON_NS);
	memcpy(client->health_reader, reply->clock, sizeof(client->health_reader));
}

static int exchange(struct control_client *client, int *ret_status, struct control_reply *reply)
{
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	_cleanup_(buffer_release) struct buffer poll = {.max = CONTROL_BODY_BYTES_MAX};
	struct health health = {0};
	struct clock_sample sample;
	fill_poll(client);
	bool with_health = client->fill_health && time_monotonic_ns() >= client->health_due_ns;
	if (with_health)
		client->fill_health(client->health_context, &health);
	client->poll.health = with_health ? &health : NULL;
	int r = control_write_poll(&client->poll, &poll, NULL);
	client->poll.health = NULL;
	if (r < 0)
		return r;
	sample.sent_ns = time_now_ns();
	r = net_client_request(client->net, "POST", CONTROL_POLL_PATH, "application/json", buffer_bytes(&poll), NET_PLAIN,
			       &response, NULL);
	sample.returned_ns = time_now_ns();
	*ret_status = r < 0 ? 0 : response.status;
	if (r == 0 && response.status == 200)
		r = control_read_reply(buffer_bytes(&response.body), reply, NULL);
	if (with_health)
		note_health(client, r, *ret_status, reply);
	if (r < 0 || *ret_status != 200 || check_clock(client))
		return r;
	sample.received_ns = reply->received_ns;
	sample.answered_ns = reply->answered_ns;
	pthread_mutex_lock(&client->lock);
	clock_sync_add(&client->sync, reply->clock, &sample);
	pthread_mutex_unlock(&client->lock);
	client->poll.sample = sample;
	client->poll.has_clock_sample = true;
	return 0;
}

static void poll_server(struct control_client *client)
{
	struct control_reply reply;
	int status = 0;
	check_clock(client);
	int r = exchange(client, &status, &reply);
	if (cancel_requested(&client->stop))
		return;
	if (r == 0 && status == 200) {
		take_reply(client, &reply);
		return;
	}
	client->poll_pause_ns = client->poll_pause_ns ? least(2 * client->poll_pause_ns, CONTROL_PAUSE_MAX_NS) : PAUSE_MIN_NS;
	if (status == 404 || status == 405 || status == 415 || status == 501) {
		log_once(client, "the server does not support remote recording: not a wick server, or an older one");
		client->poll_pause_ns = ELSEWHERE_NS;
	} else if (status == 401 || status == 403) {
		log_once(client, "the server denies this agent access to recording requests");
	}
	client->poll_due_ns = time_monotonic_ns() + client->poll_pause_ns;
}

/* ---- life ---- */

static int64_t next_due_ns(const struct control_client *client)
{
	int64_t due_ns = client->poll_due_ns;
	if (!client->has_request)
		return due_ns;
	switch (client->state) {
	case RECORDING_TAKEN: return least(due_ns, client->begin_due_ns);
	case RECORDING_RUNNING: return least(due_ns, time_monotonic_ns() + CHECK_INTERVAL_NS);
	case RECORDING_SENDING: return least(due_ns, client->send_due_ns);
	default: return due_ns;
	}
}

static void wait_until(struct control_client *client, int64_t until_ns)
{
	THREAD_LOCK_SCOPE(&client->lock);
	while (!cancel_requested(&client->stop) && thread_wait_until(&client->wake, &client->lock, until_ns))
		;
}

static void *run(void *context)
{
	struct control_client *client = context;
	while (!cancel_requested(&client->stop)) {
		if (time_monotonic_ns() >= client->poll_due_ns)
			poll_server(client);
		if (!cancel_requested(&client->stop))
			work(client);
		wait_until(client, next_due_ns(client));
	}
	if (client->has_request)
		forget_request(client);
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

static int fill(struct control_client *client, const struct control_client_options *options, struct error *err)
{
	pthread_mutex_init(&client->lock, NULL);
	thread_condition_init(&client->wake);
	client->runner = RECORDING_RUNNER_NONE;
	client->url = mem_strdup(options->url);
	client->token = options->token ? mem_strdup(options->token) : NULL;
	client->token_file = options->token_file ? mem_strdup(options->token_file) : NULL;
	client->tenant = options->tenant ? mem_strdup(options->tenant) : NULL;
	client->directory = mem_strdup(choose_directory(options->directory));
	client->fill_health = options->health;
	client->health_context = options->context;
	if (!client->url || (options->token && !client->token) || (options->token_file && !client->token_file) ||
	    (options->tenant && !client->tenant) || !client->directory)
		return error_nomem(err);
	int r = control_make_id(client->poll.agent, sizeof(client->poll.agent) / 2, err);
	if (r < 0)
		return r;
	if (!control_host_is_valid(options->host))
		return error_set(err, -EINVAL, "'%.100s' is not a valid host name", options->host);
	snprintf(client->poll.host, sizeof(client->poll.host), "%s", options->host);
	snprintf(client->poll.wick, sizeof(client->poll.wick), "%s", WICK_VERSION);
	snprintf(client->poll.refusal, sizeof(client->poll.refusal), "%s", options->refusal ? options->refusal : "");
	return 0;
}

int control_client_new(const struct control_client_options *options, struct control_client **ret, struct error *err)
{
	_cleanup_(control_client_freep) struct control_client *client = mem_zalloc(sizeof(*client));
	if (!client)
		return error_nomem(err);
	int r = fill(client, options, err);
	if (r == 0)
		r = open_net(client, CALL_TIMEOUT_NS, &client->net, err);
	if (r == 0)
		recording_runner_sweep(client->directory);
	if (r == 0)
		r = thread_start(&client->thread, "wick-control", run, client, err);
	if (r < 0)
		return r;
	client->running = true;
	*ret = TAKE(client);
	return 0;
}

struct control_client *control_client_free(struct control_client *client)
{
	if (!client)
		return NULL;
	pthread_mutex_lock(&client->lock);
	cancel_request(&client->stop);
	pthread_cond_signal(&client->wake);
	pthread_mutex_unlock(&client->lock);
	if (client->running)
		pthread_join(client->thread, NULL);
	net_client_free(client->net);
	pthread_mutex_destroy(&client->lock);
	pthread_cond_destroy(&client->wake);
	mem_free(client->url);
	mem_free(client->token);
	mem_free(client->token_file);
	mem_free(client->tenant);
	mem_free(client->directory);
	return mem_free(client);
}
