/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings of many hosts: who is asked for what, what survives a restart, what has to go. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"
#include "codec/compress.h"
#include "server/stores/recordings.h"
#include "server/stores/recordings_file.h"

#define NOW (1763790000ll * NS_PER_S)

struct world {
	char directory[64];
	struct recordings *recordings;
	unsigned problems;
};

static void on_problem(void *context, const char *message)
{
	((struct world *)context)->problems++;
	assert_non_null(message);
}

static void reopen(struct world *world, uint64_t bytes_max, int64_t now_ns)
{
	struct recordings_options options = {
		.directory = world->directory, .bytes_max = bytes_max, .problems = {on_problem, world}};
	recordings_close(world->recordings);
	assert_int_equal(recordings_open(&options, now_ns, &world->recordings, NULL), 0);
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	snprintf(world->directory, sizeof(world->directory), "/tmp/wick-recordings-XXXXXX");
	assert_non_null(mkdtemp(world->directory));
	reopen(world, 0, NOW);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	recordings_close(world->recordings);
	io_remove_tree(world->directory, NULL);
	free(world);
	return 0;
}

static struct control_reply poll_as(struct world *world, const char *agent, const char *host, int64_t now_ns,
				    const struct recording_report *report)
{
	struct control_poll poll = {0};
	struct control_reply reply = {0};
	snprintf(poll.agent, sizeof(poll.agent), "%s", agent);
	snprintf(poll.host, sizeof(poll.host), "%s", host);
	if (report)
		poll.report = *report;
	assert_int_equal(recordings_poll(world->recordings, &poll, now_ns, &reply, NULL), 0);
	return reply;
}

static struct recording_request create(struct world *world, int64_t now_ns)
{
	struct recording_request request = {.duration_ns = 10 * NS_PER_S, .frequency_hz = 99};
	assert_int_equal(recordings_create(world->recordings, &request, NULL, 0, now_ns, NULL), 0);
	return request;
}

/* The key that the host's agent was given, from the index: agents get requests only while there is something to do. */
static bool key_of(struct world *world, const char *id, const char *host, char out[static CONTROL_KEY_SIZE])
{
	char path[PATH_MAX];
	struct buffer text;
	buffer_init(&text, 1 << 20);
	snprintf(path, sizeof(path), "%s/%s/recording.json", world->directory, id);
	io_read_file(path, 1 << 20, &text, NULL);
	json_t *root = json_loadb(text.len ? (const char *)text.data : "", text.len, 0, NULL), *node;
	size_t i;
	out[0] = 0;
	json_array_foreach(json_object_get(root, "hosts"), i,
			   node) if (strcmp(json_string_value(json_object_get(node, "name")), host) == 0)
		snprintf(out, CONTROL_KEY_SIZE, "%s", json_string_value(json_object_get(node, "key")));
	json_decref(root);
	buffer_release(&text);
	return *out;
}

static struct buffer pack(const char *text)
{
	struct buffer out;
	buffer_init(&out, 1 << 20);
	assert_int_equal(gzip_compress(bytes_of_string(text), 1, &out, NULL), 0);
	return out;
}

/* As the agent that it was asked of, with the key that is its own. */
static int put_bytes(struct world *world, const char *id, const char *host, struct bytes gzip)
{
	struct recordings_upload upload = {
		.id = id,
		.host = host,
		.key = "0",
		.clock = {.reference = "r", .at_ns = NOW, .offset_ns = -5, .bound_ns = 7, .skew = 1e-5},
		.gzip = gzip};
	char key[CONTROL_KEY_SIZE];
	if (key_of(world, id, host, key))
		upload.key = key;
	return recordings_put(world->recordings, &upload, NOW, NULL);
}

static int put(struct world *world, const char *id, const char *host, const char *text)
{
	struct buffer body = pack(text);
	int r = put_bytes(world, id, host, buffer_bytes(&body));
	buffer_release(&body);
	return r;
}

static enum recording_state state_of(struct world *world, const char *id, const char *host, int64_t now_ns)
{
	struct recording *recording;
	enum recording_state state = RECORDING_STATES;
	assert_int_equal(recordings_get(world->recordings, id, now_ns, &recording, NULL), 0);
	for (size_t i = 0; i < recording->host_count; i++)
		if (strcmp(recording->hosts[i].name, host) == 0)
			state = recording->hosts[i].state;
	recording_free(recording);
	return state;
}

static void test_course(void **state)
{
	struct world *world = *state;
	struct recording_request request = {.duration_ns = NS_PER_S, .frequency_hz = 99};
	assert_int_equal(recordings_create(world->recordings, &request, NULL, 0, NOW, NULL), -ENOENT);
	assert_false(poll_as(world, "a1", "a", NOW, NULL).has_request);
	poll_as(world, "b1", "b", NOW, NULL);
	request = create(world, NOW);
	assert_true(request.start_ns > NOW);
	struct control_reply reply = poll_as(world, "a1", "a", NOW + 1, NULL);
	assert_true(reply.has_request);
	assert_string_equal(reply.request.id, request.id);
	struct recording_report report = {.state = RECORDING_RUNNING};
	memcpy(report.id, request.id, sizeof(report.id));
	poll_as(world, "a1", "a", NOW + 2, &report);
	assert_int_equal(state_of(world, request.id, "a", NOW + 2), RECORDING_RUNNING);
	report.state = RECORDING_TAKEN; /* late: nothing goes back */
	poll_as(world, "a1", "a", NOW + 3, &report);
	assert_int_equal(state_of(world, request.id, "a", NOW + 3), RECORDING_RUNNING);
	report.state = RECORDING_DONE; /* not for the agent to say */
	poll_as(world, "a1", "a", NOW + 3, &report);
	assert_int_equal(state_of(world, request.id, "a", NOW + 3), RECORDING_RUNNING);
	assert_int_equal(put(world, request.id, "c", "x"), -ENOENT);
	assert_int_equal(put(world, "ffff", "a", "x"), -ENOENT);
	assert_int_equal(put(world, request.id, "a", "{\"meta\":1}"), 0);
	assert_int_equal(put(world, request.id, "a", "{}"), -EEXIST);
	assert_int_equal(state_of(world, request.id, "a", NOW + 4), RECORDING_DONE);
	assert_false(poll_as(world, "a1", "a", NOW + 5, NULL).has_request);
	report.state = RECORDING_FAILED;
	snprintf(report.why, sizeof(report.why), "no privileges");
	poll_as(world, "b1", "b", NOW + 5, &report);
	struct recording *recording;
	assert_int_equal(recordings_get(world->recordings, request.id, NOW + 5, &recording, NULL), 0);
	assert_true(recording->is_over);
	assert_int_equal(recording->hosts[0].clock.bound_ns, 7);
	assert_string_equal(recording->hosts[1].why, "no privileges");
	recording_free(recording);
}

static int put_with_key(struct world *world, const struct recording_request *request, const char *host, const char *key)
{
	struct buffer body = pack("{}");
	struct recordings_upload upload = {.id = request->id, .host = host, .key = key, .gzip = buffer_bytes(&body)};
	int r = recordings_admit(world->recordings, &upload, NULL);
	assert_int_equal(recordings_put(world->recordings, &upload, NOW, NULL), r);
	buffer_release(&body);
	return r;
}

/* Who is not the agent that was asked cannot speak for its host, also after a restart. */
static void test_keys(void **state)
{
	struct world *world = *state;
	char key[CONTROL_KEY_SIZE];
	poll_as(world, "a1", "a", NOW, NULL);
	poll_as(world, "b1", "b", NOW, NULL);
	struct recording_request request = create(world, NOW);
	assert_string_equal(request.key, "");
	struct control_reply a = poll_as(world, "a1", "a", NOW, NULL), b = poll_as(world, "b1", "b", NOW, NULL);
	assert_int_equal(strlen(a.request.key), CONTROL_KEY_SIZE - 1);
	assert_string_not_equal(a.request.key, b.request.key);
	assert_string_equal(poll_as(world, "a1", "a", NOW, NULL).request.key, a.request.key);
	assert_false(poll_as(world, "c1", "a", NOW, NULL).has_request); /* of the same host, but it was not asked */
	reopen(world, 0, NOW);
	assert_int_equal(put_with_key(world, &request, "a", NULL), -EACCES);
	assert_int_equal(put_with_key(world, &request, "a", ""), -EACCES);
	assert_int_equal(put_with_key(world, &request, "a", b.request.key), -EACCES);
	for (size_t i = 0; i + 1 < CONTROL_KEY_SIZE; i++) {
		memcpy(key, a.request.key, sizeof(key));
		key[i] = key[i] == '0' ? '1' : '0';
		assert_int_equal(put_with_key(world, &request, "a", key), -EACCES);
		key[i] = 0;
		assert_int_equal(put_with_key(world, &request, "a", key), -EACCES);
	}
	assert_int_equal(put_with_key(world, &request, "a", a.request.key), 0);
	assert_int_equal(put_with_key(world, &request, "a", a.request.key), -EEXIST);
	assert_int_equal(put_with_key(world, &request, "a", b.request.key), -EACCES);
	assert_int_equal(put_with_key(world, &request, "b", b.request.key), 0);
}

/* A file that nobody could use: it stays and counts, no other one takes its place, and it has another chance after a restart.
 */
static void test_give_up(void **state)
{
	struct world *world = *state;
	struct recordings_stats before, after;
	struct buffer text;
	poll_as(world, "a1", "a", NOW, NULL);
	poll_as(world, "b1", "b", NOW, NULL);
	struct recording_request request = create(world, NOW);
	recordings_give_up(world->recordings, request.id, "a", "too early");
	recordings_give_up(world->recordings, request.id, "nobody", "nobody");
	recordings_give_up(world->recordings, "ffff", "a", "none");
	assert_int_equal(state_of(world, request.id, "a", NOW), RECORDING_WAITING);
	assert_int_equal(put(world, request.id, "a", "of no use"), 0);
	recordings_get_stats(world->recordings, &before);
	recordings_give_up(world->recordings, request.id, "a", "no stacks");
	assert_int_equal(state_of(world, request.id, "a", NOW), RECORDING_FAILED);
	assert_int_equal(put(world, request.id, "a", "better"), -EEXIST);
	buffer_init(&text, 1 << 20);
	assert_int_equal(recordings_read(world->recordings, request.id, "a", &text, NULL), -ENOENT);
	buffer_release(&text);
	recordings_get_stats(world->recordings, &after);
	assert_int_equal(after.bytes, before.bytes);
	assert_int_equal(after.files, 0);
	reopen(world, 0, NOW);
	assert_int_equal(state_of(world, request.id, "a", NOW), RECORDING_DONE);
	recordings_get_stats(world->recordings, &after);
	assert_int_equal(after.bytes, before.bytes);
}

/* A disk that takes its time keeps no agent waiting: here the index is a pipe that nobody reads. */
static void test_slow_disk(void **state)
{
	struct world *world = *state;
	struct recording_report report = {.state = RECORDING_FAILED, .why = "no privileges"};
	char path[PATH_MAX], text[4096];
	poll_as(world, "a1", "a", NOW, NULL);
	poll_as(world, "b1", "b", NOW, NULL);
	struct recording_request request = create(world, NOW);
	memcpy(report.id, request.id, sizeof(report.id));
	snprintf(path, sizeof(path), "%s/%s/recording.json", world->directory, request.id);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	alarm(120); /* where it would wait for ever */
	poll_as(world, "a1", "a", NOW + 1, &report);
	poll_as(world, "b1", "b", NOW + 1, &report);
	assert_int_equal(state_of(world, request.id, "a", NOW + 1), RECORDING_FAILED);
	/* All that was reported comes, in the end. */
	for (bool has_both = false; !has_both;) {
		FILE *pipe = fopen(path, "r");
		assert_non_null(pipe);
		size_t len = fread(text, 1, sizeof(text) - 1, pipe);
		fclose(pipe);
		text[len] = 0;
		const char *first = strstr(text, "no privileges");
		has_both = first && strstr(first + 1, "no privileges");
	}
	alarm(0);
}

/* Reasons are kept, also of reports that came just before the end. */
static void test_reasons(void **state)
{
	struct world *world = *state;
	struct recording_report report = {.state = RECORDING_FAILED, .why = "no privileges"};
	struct recording_request orders[20];
	for (size_t i = 0; i < 20; i++) {
		poll_as(world, "a1", "a", NOW, NULL);
		orders[i] = create(world, NOW);
		memcpy(report.id, orders[i].id, sizeof(report.id));
		poll_as(world, "a1", "a", NOW, &report);
	}
	reopen(world, 0, NOW);
	for (size_t i = 0; i < 20; i++)
		assert_int_equal(state_of(world, orders[i].id, "a", NOW), RECORDING_FAILED);
}

/* What cannot be on disk was not requested. */
static void test_no_disk(void **state)
{
	struct world *world = *state;
	struct recording_request request = {.duration_ns = NS_PER_S, .frequency_hz = 99};
	struct recordings_stats stats;
	poll_as(world, "a1", "a", NOW, NULL);
	assert_int_equal(rmdir(world->directory), 0);
	FILE *file = fopen(world->directory, "w");
	assert_non_null(file);
	fclose(file);
	assert_true(recordings_create(world->recordings, &request, NULL, 0, NOW, NULL) < 0);
	assert_false(poll_as(world, "a1", "a", NOW + 1, NULL).has_request);
	recordings_get_stats(world->recordings, &stats);
	assert_int_equal(stats.recordings + stats.created, 0);
	assert_int_equal(unlink(world->directory), 0);
}

static void test_busy_and_unknown(void **state)
{
	struct world *world = *state;
	struct recording_request request = {.duration_ns = NS_PER_S, .frequency_hz = 99};
	char hosts[2][CONTROL_HOST_SIZE] = {"a", "nobody"};
	poll_as(world, "a1", "a", NOW, NULL);
	create(world, NOW);
	assert_int_equal(recordings_create(world->recordings, &request, hosts, 2, NOW, NULL), 0);
	assert_int_equal(state_of(world, request.id, "a", NOW), RECORDING_FAILED);
	assert_int_equal(state_of(world, request.id, "nobody", NOW), RECORDING_SILENT);
}

static void test_silence(void **state)
{
	struct world *world = *state;
	poll_as(world, "a1", "a", NOW, NULL);
	struct recording_request request = create(world, NOW);
	int64_t end_ns = request.start_ns + request.duration_ns;
	assert_int_equal(state_of(world, request.id, "a", request.start_ns), RECORDING_WAITING);
	assert_int_equal(state_of(world, request.id, "a", end_ns + 2 * RECORDINGS_SILENT_NS), RECORDING_SILENT);
	assert_int_equal(put(world, request.id, "a", "late"), 0);
	assert_int_equal(state_of(world, request.id, "a", end_ns + 3 * RECORDINGS_SILENT_NS), RECORDING_DONE);
}

static void test_sending_takes_time(void **state)
{
	struct world *world = *state;
	struct recording_report report = {.state = RECORDING_SENDING};
	poll_as(world, "a1", "a", NOW, NULL);
	poll_as(world, "b1", "b", NOW, NULL);
	struct recording_request request = create(world, NOW);
	int64_t end_ns = request.start_ns + request.duration_ns;
	memcpy(report.id, request.id, sizeof(report.id));
	poll_as(world, "a1", "a", end_ns, &report);
	assert_int_equal(state_of(world, request.id, "a", end_ns + 2 * RECORDINGS_SILENT_NS), RECORDING_SENDING);
	assert_int_equal(state_of(world, request.id, "b", end_ns + 2 * RECORDINGS_SILENT_NS), RECORDING_SILENT);
	assert_int_equal(state_of(world, request.id, "a", end_ns + RECORDINGS_SENDING_NS), RECORDING_SENDING);
	assert_int_equal(state_of(world, request.id, "a", end_ns + RECORDINGS_SENDING_NS + NS_PER_S), RECORDING_SILENT);
}

/* An agent that says the same for ever keeps nobody waiting for ever. */
static void test_endless(void **state)
{
	struct world *world = *state;
	struct recording_report report = {.state = RECORDING_RUNNING};
	poll_as(world, "a1", "a", NOW, NULL);
	struct recording_request request = create(world, NOW);
	int64_t end_ns = request.start_ns + request.duration_ns;
	memcpy(report.id, request.id, sizeof(report.id));
	poll_as(world, "a1", "a", end_ns + RECORDINGS_LAST_NS, &report);
	assert_int_equal(state_of(world, request.id, "a", end_ns + RECORDINGS_LAST_NS), RECORDING_RUNNING);
	assert_int_equal(state_of(world, request.id, "a", end_ns + RECORDINGS_LAST_NS + NS_PER_S), RECORDING_SILENT);
}

/* A server that was away during a long recording does not give up all hosts before their agents can ask again. */
static void test_restart_within(void **state)
{
	struct world *world = *state;
	struct recording_request request = {.duration_ns = 600 * NS_PER_S, .frequency_hz = 99};
	struct recording_report report = {.state = RECORDING_RUNNING};
	poll_as(world, "a1", "a", NOW, NULL);
	poll_as(world, "b1", "b", NOW, NULL);
	assert_int_equal(recordings_create(world->recordings, &request, NULL, 0, NOW, NULL), 0);
	memcpy(report.id, request.id, sizeof(report.id));
	int64_t again_ns = request.start_ns + 300 * NS_PER_S;
	reopen(world, 0, again_ns);
	assert_int_equal(state_of(world, request.id, "a", again_ns + NS_PER_S), RECORDING_WAITING);
	poll_as(world, "a1", "a", again_ns + 2 * NS_PER_S, &report);
	assert_int_equal(state_of(world, request.id, "a", again_ns + 2 * RECORDINGS_SILENT_NS), RECORDING_RUNNING);
	/* An agent that found no server for long asks again that much later. */
	int64_t last_ns = again_ns + CONTROL_PAUSE_MAX_NS + RECORDINGS_SILENT_NS;
	assert_int_equal(state_of(world, request.id, "b", last_ns), RECORDING_WAITING);
	assert_int_equal(state_of(world, request.id, "b", last_ns + 1), RECORDING_SILENT);
}

static void test_removal_cancels(void **state)
{
	struct world *world = *state;
	poll_as(world, "a1", "a", NOW, NULL);
	struct recording_request request = create(world, NOW);
	struct recording_report report = {.state = RECORDING_RUNNING};
	memcpy(report.id, request.id, sizeof(report.id));
	assert_int_equal(recordings_remove(world->recordings, request.id, NULL), 0);
	assert_int_equal(recordings_remove(world->recordings, request.id, NULL), -ENOENT);
	struct control_reply reply = poll_as(world, "a1", "a", NOW + 1, &report);
	assert_int_equal(reply.cancel_count, 1);
	assert_string_equal(reply.cancelled[0], request.id);
	assert_false(reply.has_request);
	assert_int_equal(rmdir(world->directory), 0); /* nothing is left in it */
}

static void test_restart(void **state)
{
	struct world *world = *state;
	struct buffer text;
	buffer_init(&text, 1 << 20);
	poll_as(world, "a1", "a", NOW, NULL);
	poll_as(world, "b1", "strange: \xc3\xa4", NOW, NULL);
	struct recording_request request = create(world, NOW);
	assert_int_equal(put(world, request.id, "strange: \xc3\xa4", "kept"), 0);
	reopen(world, 0, NOW);
	assert_int_equal(state_of(world, request.id, "strange: \xc3\xa4", NOW), RECORDING_DONE);
	assert_int_equal(state_of(world, request.id, "a", NOW), RECORDING_WAITING);
	/* The agent goes on where it was. */
	assert_int_equal(put(world, request.id, "a", "after"), 0);
	assert_int_equal(recordings_read(world->recordings, request.id, "a", &text, NULL), 0);
	struct buffer plain;
	buffer_init(&plain, 100);
	assert_int_equal(gzip_decompress(buffer_bytes(&text), &plain, NULL), 0);
	assert_true(bytes_equal_string(buffer_bytes(&plain), "after"));
	buffer_release(&plain);
	buffer_release(&text);
	/* Without the index the files tell. */
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/%s/recording.json", world->directory, request.id);
	assert_int_equal(unlink(path), 0);
	reopen(world, 0, NOW);
	assert_int_equal(state_of(world, request.id, "a", NOW), RECORDING_DONE);
	assert_int_equal(world->problems, 0);
}

static void damage(struct world *world, const char *id, const char *name, bool cut)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/%s/%s", world->directory, id, name);
	int fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	off_t size = lseek(fd, 0, SEEK_END);
	if (cut)
		assert_int_equal(ftruncate(fd, size - 1), 0);
	else
		assert_int_equal(pwrite(fd, "X", 1, size - 9), 1);
	close(fd);
}

static void test_torn(void **state)
{
	struct world *world = *state;
	struct buffer text = {0};
	poll_as(world, "a1", "a", NOW, NULL);
	poll_as(world, "b1", "b", NOW, NULL);
	poll_as(world, "c1", "c", NOW, NULL);
	struct recording_request request = create(world, NOW);
	for (const char *host = "a\0b\0c\0"; *host; host += 2)
		assert_int_equal(put(world, request.id, host, "some text that is long enough"), 0);
	damage(world, request.id, "a.json.gz", true);
	damage(world, request.id, "b.json.gz", false);
	reopen(world, 0, NOW);
	assert_int_equal(world->problems, 1);
	assert_int_equal(state_of(world, request.id, "a", NOW), RECORDING_WAITING);
	buffer_init(&text, 1 << 20);
	assert_int_equal(recordings_read(world->recordings, request.id, "b", &text, NULL), -EBADMSG);
	assert_int_equal(world->problems, 2);
	assert_int_equal(state_of(world, request.id, "b", NOW), RECORDING_FAILED);
	struct recordings_stats stats;
	struct recording *recording;
	recordings_get_stats(world->recordings, &stats);
	assert_int_equal(recordings_get(world->recordings, request.id, NOW, &recording, NULL), 0);
	assert_int_equal(stats.bytes, recording->hosts[2].bytes); /* only c's is left */
	assert_int_equal(recording->bytes, stats.bytes);
	recording_free(recording);
	assert_int_equal(recordings_read(world->recordings, request.id, "c", &text, NULL), 0);
	buffer_release(&text);
	struct buffer body = pack("whole");
	for (size_t len = 0; len < body.len; len++)
		assert_int_equal(put_bytes(world, request.id, "a", (struct bytes){body.data, len}), -EBADMSG);
	assert_int_equal(put_bytes(world, request.id, "a", buffer_bytes(&body)), 0);
	buffer_release(&body);
}

static void test_room(void **state)
{
	struct world *world = *state;
	struct recordings_stats stats;
	reopen(world, 100000, NOW);
	poll_as(world, "a1", "a", NOW, NULL);
	char text[2001] = {0}, first[CONTROL_ID_SIZE] = "", last[CONTROL_ID_SIZE] = "";
	for (int i = 0; i < 300; i++) {
		for (size_t k = 0; k < sizeof(text) - 1; k++)
			text[k] = (char)('!' + (k * 7919 + (size_t)i * 31 + k * k) % 90);
		struct recording_request request = create(world, NOW + i);
		assert_int_equal(put(world, request.id, "a", text), 0);
		memcpy(i ? last : first, request.id, sizeof(first));
		recordings_get_stats(world->recordings, &stats);
		assert_true(stats.bytes <= 100000);
	}
	assert_true(stats.evicted > 0 && stats.files > 10);
	struct recording *recording;
	assert_int_equal(recordings_get(world->recordings, first, NOW, &recording, NULL), -ENOENT);
	assert_int_equal(state_of(world, last, "a", NOW), RECORDING_DONE);
	reopen(world, 20000, NOW);
	recordings_get_stats(world->recordings, &stats);
	assert_true(stats.bytes <= 20000);
	reopen(world, 20000, NOW + RECORDINGS_AGE_DEFAULT_NS + NS_PER_S);
	recordings_get_stats(world->recordings, &stats);
	assert_int_equal(stats.recordings, 0);
	reopen(world, 10, NOW);
	poll_as(world, "a1", "a", NOW, NULL);
	struct recording_request request = create(world, NOW);
	assert_int_equal(put(world, request.id, "a", text), -ENOSPC);
}

/* Also where nobody requests or lists recordings any more. */
static void test_age(void **state)
{
	struct world *world = *state;
	struct recordings_stats stats;
	poll_as(world, "a1", "a", NOW, NULL);
	struct recording_request request = create(world, NOW);
	assert_int_equal(put(world, request.id, "a", "text"), 0);
	poll_as(world, "a1", "a", NOW + RECORDINGS_AGE_DEFAULT_NS, NULL);
	assert_int_equal(state_of(world, request.id, "a", NOW), RECORDING_DONE);
	poll_as(world, "a1", "a", NOW + RECORDINGS_AGE_DEFAULT_NS + NS_PER_S, NULL);
	recordings_get_stats(world->recordings, &stats);
	assert_int_equal(stats.recordings, 0);
	assert_int_equal(stats.bytes, 0);
}

/* What is too large whatever goes costs nothing that is there. */
static void test_no_room_in_vain(void **state)
{
	struct world *world = *state;
	struct recordings_stats stats;
	reopen(world, NOTED_HEADER_MAX + 2000, NOW);
	poll_as(world, "a1", "a", NOW, NULL);
	poll_as(world, "b1", "b", NOW, NULL);
	struct recording_request old = create(world, NOW), request = {.duration_ns = NS_PER_S, .frequency_hz = 99};
	assert_int_equal(put(world, old.id, "a", "small"), 0);
	assert_int_equal(put(world, old.id, "b", "small"), 0);
	assert_int_equal(recordings_create(world->recordings, &request, NULL, 0, NOW + 1, NULL), 0);
	uint8_t noise[6000];
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)((i * i * 2654435761u) >> 13);
	struct buffer body;
	buffer_init(&body, 1 << 20);
	assert_int_equal(gzip_compress((struct bytes){noise, sizeof(noise)}, 1, &body, NULL), 0);
	assert_true(body.len > 2000);
	assert_int_equal(put_bytes(world, request.id, "a", buffer_bytes(&body)), -ENOSPC);
	buffer_release(&body);
	recordings_get_stats(world->recordings, &stats);
	assert_int_equal(stats.evicted, 0);
	assert_int_equal(state_of(world, old.id, "a", NOW + 1), RECORDING_DONE);
	/* The smaller one may have the room of an older recording. */
	assert_int_equal(put(world, request.id, "a", "small"), 0);
}

static void test_many_agents(void **state)
{
	struct world *world = *state;
	struct control_poll poll = {.host = "h"};
	struct control_reply reply;
	for (int i = 0; i <= RECORDINGS_AGENTS_MAX; i++) {
		snprintf(poll.agent, sizeof(poll.agent), "%x", i);
		assert_int_equal(recordings_poll(world->recordings, &poll, NOW + i, &reply, NULL),
				 i < RECORDINGS_AGENTS_MAX ? 0 : -EDQUOT);
	}
	assert_int_equal(recordings_poll(world->recordings, &poll, NOW + 10 * RECORDINGS_AGENT_STALE_NS, &reply, NULL), 0);
}

static void test_headers(void **state)
{
	(void)state;
	struct buffer body = pack("text"), whole;
	struct recording_file file = {.id = "ab", .host = "h", .plain_bytes = 4, .received_ns = NOW}, got;
	struct bytes rest;
	buffer_init(&whole, 1 << 20);
	assert_int_equal(noted_write_header(&recording_form, &file, buffer_bytes(&body), &whole, &rest, NULL), 0);
	assert_int_equal(buffer_append(&whole, rest.data, rest.len), 0);
	assert_int_equal(noted_check(&recording_form, buffer_bytes(&whole), &got, NULL), 0);
	assert_string_equal(got.host, "h");
	for (size_t len = 0; len < whole.len; len++)
		assert_int_equal(noted_check(&recording_form, (struct bytes){whole.data, len}, &got, NULL), -EBADMSG);
	/* Its own header is replaced, not stacked. */
	struct buffer again;
	buffer_init(&again, 1 << 20);
	assert_int_equal(noted_write_header(&recording_form, &file, buffer_bytes(&whole), &again, &rest, NULL), 0);
	assert_int_equal(again.len + rest.len, whole.len);
	buffer_release(&again);
	buffer_release(&whole);
	buffer_release(&body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_course, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_give_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reasons, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(test_busy_and_unknown, setup, teardown),
		cmocka_unit_test_setup_teardown(test_silence, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sending_takes_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_endless, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restart_within, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removal_cancels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_torn, setup, teardown),
		cmocka_unit_test_setup_teardown(test_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_age, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_room_in_vain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_agents, setup, teardown),
		cmocka_unit_test(test_headers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
