/* SPDX-License-Identifier: MIT */
/*
 * A streaming job of two nodes that emits markers about its work, as an example of libwickmark. run.sh runs and records it.
 *
 *     pipeline NODE ADDRESS:PORT [STEPS [MICROSECONDS]]
 *
 * Node 0 listens at the address, node 1 connects to it. Each node is two processes and five threads:
 *
 *     source process ──pipe──> operators ──queue──> merge            rows with keys of this node
 *                                  └─────queue──> send ──TCP──> the other node's receive ──queue──> its merge
 *
 * The source makes a batch of rows every so many microseconds. A step takes one, filters it, groups it by key, and divides it:
 * rows with keys of the other node go there. Each batch that crosses is one exchange: a marker of the sender and one of the
 * receiver have one flow. Batches are runs, sorted by key; the merge makes one run of every few. In the end each node prints
 * what it has, and both together must have all rows.
 *
 * An exchange's markers also carry CLOCK_MONOTONIC (`clock`): on one machine with two network namespaces it is the truth that
 * the times of a merged profile can be checked by.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <wickmark.h>

#define BATCH_ROWS 256 /* that the source makes at a time */
#define QUEUE_MAX  64
#define MERGE_RUNS 32 /* that become one */
#define KEYS	   4096u

struct row {
	uint32_t key, value;
};
struct batch {
	uint64_t flow; /* of the exchange that it takes part in; on the wire, too */
	uint32_t step, count;
	struct row rows[];
};

/* ---- what there is to tell: one site for each kind of marker ---- */

static struct wickmark_site job = WICKMARK_SITE("Pipeline", "job", {"steps", "Steps", WICKMARK_INTEGER});
static struct wickmark_site generate = WICKMARK_SITE("Source", "generate", {"step", "Step", WICKMARK_INTEGER});
static struct wickmark_site step =
	WICKMARK_SITE("Pipeline", "step", {"step", "Step", WICKMARK_INTEGER}, {"rows", "Rows", WICKMARK_INTEGER});
static struct wickmark_site filter =
	WICKMARK_SITE("Operator", "filter", {"rows", "Rows in", WICKMARK_INTEGER}, {"kept", "Share kept", WICKMARK_PERCENTAGE});
static struct wickmark_site group =
	WICKMARK_SITE("Operator", "group", {"rows", "Rows in", WICKMARK_INTEGER}, {"groups", "Groups", WICKMARK_INTEGER});
static struct wickmark_site divide = WICKMARK_SITE("Operator", "divide", {"away", "Rows for the other node", WICKMARK_INTEGER});
static struct wickmark_site sending = WICKMARK_SITE("Exchange", "send", {"clock", "Clock", WICKMARK_INTEGER},
						    {"bytes", "Size", WICKMARK_BYTES}, {"peer", "To", WICKMARK_STRING});
static struct wickmark_site receiving = WICKMARK_SITE("Exchange", "receive", {"clock", "Clock", WICKMARK_INTEGER},
						      {"bytes", "Size", WICKMARK_BYTES}, {"peer", "From", WICKMARK_STRING});
static struct wickmark_site waiting = WICKMARK_SITE("Merge", "run waits", {"rows", "Rows", WICKMARK_INTEGER});
static struct wickmark_site merging =
	WICKMARK_SITE("Merge", "merge", {"runs", "Runs", WICKMARK_INTEGER}, {"rows", "Rows", WICKMARK_INTEGER});
static struct wickmark_site rows_counted = WICKMARK_COUNTER("Pipeline", "rows", WICKMARK_COUNTER_EVENTS, "count");
static struct wickmark_site merge_queue = WICKMARK_COUNTER("Pipeline", "runs to merge", WICKMARK_COUNTER_LEVEL, "count");
static struct wickmark_site send_queue = WICKMARK_COUNTER("Pipeline", "batches to send", WICKMARK_COUNTER_LEVEL, "count");

static int node;
static uint32_t peer_name; /* text of the library */

static void name_thread(const char *what)
{
	char name[64];
	snprintf(name, sizeof(name), "%s of node %d", what, node);
	wickmark_thread_name(name);
}

static uint64_t clock_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Begins a span, and reads the clock in the same microsecond: if the thread lost the CPU in between, both once more. */
static uint64_t begin_at(uint64_t *ret_clock)
{
	for (int tries = 0;; tries++) {
		*ret_clock = clock_ns();
		uint64_t begun = wickmark_begin();
		if (clock_ns() - *ret_clock < 1000 || tries == 100)
			return begun;
	}
}

static void fail(const char *what)
{
	fprintf(stderr, "pipeline: node %d: %s: %s\n", node, what, strerror(errno));
	exit(1);
}

static struct batch *batch_new(uint32_t count)
{
	struct batch *batch = calloc(1, sizeof(*batch) + count * sizeof(struct row));
	if (!batch)
		fail("memory");
	return batch;
}

/* ---- queues between threads: bounded, so that who is too fast waits ---- */

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct batch *items[QUEUE_MAX];
	size_t first, count, writers;
	struct wickmark_site *length;
};
static struct queue to_merge = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .writers = 2, .length = &merge_queue};
static struct queue to_send = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .writers = 1, .length = &send_queue};

static void queue_put(struct queue *queue, struct batch *batch)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->count == QUEUE_MAX)
		pthread_cond_wait(&queue->changed, &queue->lock);
	queue->items[(queue->first + queue->count++) % QUEUE_MAX] = batch;
	wickmark_count(queue->length, (double)queue->count);
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

/* NULL when it is empty for good. */
static struct batch *queue_get(struct queue *queue)
{
	struct batch *batch = NULL;
	pthread_mutex_lock(&queue->lock);
	while (queue->count == 0 && queue->writers)
		pthread_cond_wait(&queue->changed, &queue->lock);
	if (queue->count) {
		batch = queue->items[queue->first];
		queue->first = (queue->first + 1) % QUEUE_MAX;
		wickmark_count(queue->length, (double)--queue->count);
		pthread_cond_broadcast(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	return batch;
}

static void queue_leave(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->writers--;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

/* A run on its way to the merge is an asynchronous span: it begins on one thread and ends on another. Its id is no other run's
 * of the job: an address would soon be another's. */
static uint64_t id_of_run(const struct batch *batch)
{
	return batch->flow ? batch->flow : batch->step + 1u; /* has it come from the other node? */
}

static void pass_to_merge(struct batch *batch)
{
	wickmark_async_begin(&waiting, id_of_run(batch), WICKMARK_VALUES(wickmark_integer(batch->count)));
	queue_put(&to_merge, batch);
}

/* ---- pipes and sockets ---- */

static void write_all(int fd, const void *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, (const char *)data + done, size - done);
		if (n <= 0)
			fail("write");
		done += (size_t)n;
	}
}

/* False at the end. */
static bool read_all(int fd, void *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = read(fd, (char *)data + done, size - done);
		if (n < 0 || (n == 0 && done))
			fail("read");
		if (n == 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static struct batch *read_batch(int fd)
{
	struct batch head;
	if (!read_all(fd, &head, sizeof(head)))
		return NULL;
	if (head.count > BATCH_ROWS)
		fail("a batch that is too large");
	struct batch *batch = batch_new(head.count);
	*batch = head;
	if (head.count)
		read_all(fd, batch->rows, head.count * sizeof(struct row));
	return batch;
}

static int connect_nodes(const char *address)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	char host[64] = "";
	unsigned port = 0;
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	if (sscanf(address, "%63[0-9.]:%u", host, &port) != 2 || inet_pton(AF_INET, host, &at.sin_addr) != 1)
		fail("an address is A.B.C.D:PORT");
	at.sin_port = htons((uint16_t)port);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (node == 0) {
		int listener = fd;
		if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 1) < 0)
			fail("listen");
		fd = accept(listener, NULL, NULL);
		close(listener);
	} else {
		for (int tries = 0; connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0; tries++) {
			if (tries == 300)
				fail("connect");
			close(fd);
			nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
			fd = socket(AF_INET, SOCK_STREAM, 0);
		}
	}
	if (fd < 0)
		fail("socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* ---- the source: a process of its own ---- */

static void run_source(int out, uint32_t steps, long pause_us)
{
	uint64_t state = 88172645463325252u + (uint64_t)node, due = clock_ns();
	struct batch *batch = batch_new(BATCH_ROWS);
	name_thread("source");
	for (uint32_t i = 0; i < steps; i++) {
		uint64_t begun = wickmark_begin();
		batch->step = i;
		batch->count = BATCH_ROWS;
		for (uint32_t k = 0; k < BATCH_ROWS; k++) {
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			batch->rows[k] = (struct row){(uint32_t)(state >> 32) % KEYS, (uint32_t)state};
		}
		wickmark_end(&generate, begun, WICKMARK_VALUES(wickmark_integer(i)));
		write_all(out, batch, sizeof(*batch) + BATCH_ROWS * sizeof(struct row));
		due += (uint64_t)pause_us * 1000;
		struct timespec at = {(time_t)(due / 1000000000), (long)(due % 1000000000)};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
	free(batch);
}

/* ---- operators ---- */

/* Work that samples can see: whether a row is wanted depends on a slow hash of it. */
__attribute__((noinline)) static bool is_wanted(struct row row)
{
	uint32_t hash = row.value ^ row.key;
	for (int i = 0; i < 100; i++)
		hash = (hash ^ (hash >> 15)) * 0x2c1b3c6du;
	return hash % 4 != 0;
}

static void run_filter(struct batch *batch)
{
	uint64_t begun = wickmark_begin();
	uint32_t before = batch->count, kept = 0;
	for (uint32_t i = 0; i < before; i++)
		if (is_wanted(batch->rows[i]))
			batch->rows[kept++] = batch->rows[i];
	batch->count = kept;
	wickmark_end(&filter, begun,
		     WICKMARK_VALUES(wickmark_integer(before), wickmark_decimal(before ? (double)kept / before : 0)));
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	return (x->key > y->key) - (x->key < y->key);
}

/* One row a key; its value counts the rows that it stands for. */
static void run_group(struct batch *batch)
{
	uint64_t begun = wickmark_begin();
	uint32_t before = batch->count, groups = 0;
	qsort(batch->rows, before, sizeof(struct row), compare_rows);
	for (uint32_t i = 0; i < before; i++) {
		if (groups && batch->rows[groups - 1].key == batch->rows[i].key)
			batch->rows[groups - 1].value++;
		else
			batch->rows[groups++] = (struct row){batch->rows[i].key, 1};
	}
	batch->count = groups;
	wickmark_end(&group, begun, WICKMARK_VALUES(wickmark_integer(before), wickmark_integer(groups)));
}

/* Odd keys are node 1's. Returns what is for the other node. */
static struct batch *run_divide(struct batch *batch)
{
	uint64_t begun = wickmark_begin();
	struct batch *away = batch_new(batch->count);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < batch->count; i++) {
		if ((int)(batch->rows[i].key % 2) == node)
			batch->rows[kept++] = batch->rows[i];
		else
			away->rows[away->count++] = batch->rows[i];
	}
	batch->count = kept;
	away->step = batch->step;
	away->flow = ((uint64_t)(node + 1) << 40) + batch->step + 1; /* not that of any other exchange of the job */
	wickmark_end(&divide, begun, WICKMARK_VALUES(wickmark_integer(away->count)));
	return away;
}

/* A step: spans within a span. */
static void *run_operators(void *source)
{
	struct batch *batch;
	name_thread("operators");
	while ((batch = read_batch(*(int *)source))) {
		uint64_t begun = wickmark_begin();
		uint32_t rows = batch->count;
		run_filter(batch);
		wickmark_count(&rows_counted, batch->count);
		run_group(batch);
		struct batch *away = run_divide(batch);
		wickmark_end(&step, begun, WICKMARK_VALUES(wickmark_integer(batch->step), wickmark_integer(rows)));
		queue_put(&to_send, away);
		pass_to_merge(batch);
	}
	queue_leave(&to_send);
	queue_leave(&to_merge);
	return NULL;
}

/* ---- exchanges ---- */

static void *run_send(void *peer)
{
	int fd = *(int *)peer;
	struct batch *batch;
	name_thread("send");
	while ((batch = queue_get(&to_send))) {
		size_t bytes = sizeof(*batch) + batch->count * sizeof(struct row);
		uint64_t clock, begun = begin_at(&clock);
		write_all(fd, batch, bytes);
		uint64_t values[] = {clock, bytes, wickmark_text(peer_name)};
		wickmark_end(&sending, begun,
			     &(struct wickmark_details){.values = values, .value_count = 3, .flow = batch->flow});
		free(batch);
	}
	shutdown(fd, SHUT_WR);
	return NULL;
}

static void *run_receive(void *peer)
{
	int fd = *(int *)peer;
	struct batch *batch;
	name_thread("receive");
	while ((batch = read_batch(fd))) {
		uint64_t clock, begun = begin_at(&clock);
		uint64_t bytes = sizeof(*batch) + batch->count * sizeof(struct row), flow = batch->flow;
		uint64_t values[] = {clock, bytes, wickmark_text(peer_name)};
		pass_to_merge(batch);
		wickmark_end(&receiving, begun,
			     &(struct wickmark_details){.values = values, .value_count = 3, .flow = flow, .flow_ends = 1});
	}
	queue_leave(&to_merge);
	return NULL;
}

/* ---- the merge ---- */

static struct batch *merge_two(struct batch *a, struct batch *b)
{
	struct batch *out = batch_new(a->count + b->count);
	uint32_t i = 0, k = 0;
	while (i < a->count || k < b->count) {
		struct row *last = out->count ? &out->rows[out->count - 1] : NULL;
		struct row next =
			k == b->count || (i < a->count && a->rows[i].key <= b->rows[k].key) ? a->rows[i++] : b->rows[k++];
		if (last && last->key == next.key)
			last->value += next.value;
		else
			out->rows[out->count++] = next;
	}
	free(a);
	free(b);
	return out;
}

static struct batch *merge_runs(struct batch **runs, size_t count)
{
	uint64_t begun = wickmark_begin();
	struct batch *all = batch_new(0);
	for (size_t i = 0; i < count; i++)
		all = merge_two(all, runs[i]);
	wickmark_end(&merging, begun, WICKMARK_VALUES(wickmark_integer((int64_t)count), wickmark_integer(all->count)));
	return all;
}

/* Returns one run of all that came. */
static void *run_merge(void *argument)
{
	struct batch *runs[MERGE_RUNS], *batch;
	size_t count = 0;
	(void)argument;
	name_thread("merge");
	while ((batch = queue_get(&to_merge))) {
		wickmark_async_end(&waiting, id_of_run(batch), NULL);
		runs[count++] = batch;
		if (count == MERGE_RUNS) {
			runs[0] = merge_runs(runs, count);
			count = 1;
		}
	}
	return merge_runs(runs, count);
}

/* ---- a node ---- */

static void run_node(int source, int peer)
{
	pthread_t threads[3], merge;
	void *result;
	if (pthread_create(&merge, NULL, run_merge, NULL) || pthread_create(&threads[0], NULL, run_receive, &peer) ||
	    pthread_create(&threads[1], NULL, run_send, &peer) || pthread_create(&threads[2], NULL, run_operators, &source))
		fail("threads");
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	pthread_join(merge, &result);
	const struct batch *all = result;
	uint64_t rows = 0;
	for (uint32_t i = 0; i < all->count; i++)
		rows += all->rows[i].value;
	printf("node %d: %llu rows of %u keys\n", node, (unsigned long long)rows, all->count);
	free(result);
}

int main(int argc, char **argv)
{
	int pipe_fds[2], status;
	char peer[16];
	if (argc < 3 || argc > 5 || (strcmp(argv[1], "0") != 0 && strcmp(argv[1], "1") != 0)) {
		fputs("usage: pipeline 0|1 ADDRESS:PORT [STEPS [MICROSECONDS]]\n", stderr);
		return 2;
	}
	node = argv[1][0] - '0';
	uint32_t steps = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 2000;
	long pause_us = argc > 4 ? strtol(argv[4], NULL, 10) : 2000;
	snprintf(peer, sizeof(peer), "node %d", 1 - node);
	peer_name = wickmark_intern(peer);
	name_thread("main thread");
	uint32_t whole = wickmark_long_begin(&job, WICKMARK_VALUES(wickmark_integer(steps)));
	int socket = connect_nodes(argv[2]);
	if (pipe(pipe_fds) < 0)
		fail("pipe");
	pid_t source = fork();
	if (source == 0) {
		close(socket);
		close(pipe_fds[0]);
		run_source(pipe_fds[1], steps, pause_us);
		return 0;
	}
	close(pipe_fds[1]);
	run_node(pipe_fds[0], socket);
	waitpid(source, &status, 0);
	wickmark_long_end(whole);
	return source < 0 || !WIFEXITED(status) || WEXITSTATUS(status);
}
