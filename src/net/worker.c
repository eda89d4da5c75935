/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker threads. Handlers may read disks and wait for fsync; the loop may not. There are three kinds of jobs, each with its
 * queue (bounded: beyond it the server says 503 rather than grow a backlog that nobody waits for any more) and with so many
 * threads' worth of places: requests, slow requests (queries), and TLS handshakes. So whatever queries cost, uploads go on,
 * and the other way round; and a crowd of strangers who shake hands delays nobody whose connection stands. Under the same lock
 * are the jobs that a thread has finished, and streams that have something to send. The loop is woken once, when the last two
 * stop being empty.
 *
 * Requests and handshakes take turns by tenant and address (fair.h). Slow jobs take turns by client: a job's tag is one more
 * than that of the client's job before it, or than the tag served last if there is none (start-time fair queueing with a cost
 * of 1), and the lowest tag runs. A client with a hundred jobs waiting thus delays the first job of another by one job. And
 * no client has all the places, as long as there are two: what runs for half a minute would otherwise keep everybody else out.
 */
#include <assert.h>
#include <errno.h>

#include "base/alloc.h"
#include "net/net_int.h"

/* Keys that can be told apart in a queue: all that wait, and jobs that are never refused. */
#define FAIR_KEYS (2 * NET_QUEUE_MAX)

/* With the lock held: adds to what the loop collects. True if it is to be woken, which is done without the lock: the loop asks
 * for that as soon as it wakes up. */
static bool hand_over(struct net_workers *workers, struct net_jobs *list, struct net_job *job)
{
	bool told = workers->finished.first || workers->woken.first;
	jobs_push(list, job);
	return !told;
}

/* ---- slow jobs; with the lock held ---- */

static void slow_push(struct net_workers *workers, struct net_job *job)
{
	uint64_t last = workers->slow_now;
	for (const struct net_job *at = workers->slow.first; at; at = at->next)
		if (at->key == job->key && at->tag > last)
			last = at->tag;
	for (unsigned i = 0; i < workers->running[NET_JOB_SLOW]; i++)
		if (workers->slow_tags[i].key == job->key && workers->slow_tags[i].tag > last)
			last = workers->slow_tags[i].tag;
	job->tag = last + 1;
	jobs_push(&workers->slow, job);
}

static bool slow_may_run(const struct net_workers *workers, const struct net_job *job)
{
	unsigned running = 0, slots = workers->slots[NET_JOB_SLOW], most = slots > 1 ? slots - 1 : 1;
	for (unsigned i = 0; i < workers->running[NET_JOB_SLOW]; i++)
		running += workers->slow_tags[i].key == job->key;
	return running < most;
}

static struct net_job *slow_pop(struct net_workers *workers)
{
	struct net_job **best = NULL, *job;
	for (struct net_job **at = &workers->slow.first; *at; at = &(*at)->next)
		if (slow_may_run(workers, *at) && (!best || (*at)->tag < (*best)->tag))
			best = at;
	if (!best)
		return NULL;
	job = *best;
	*best = job->next;
	if (!job->next)
		workers->slow.last = best;
	workers->slow.count--;
	workers->slow_now = job->tag > workers->slow_now ? job->tag : workers->slow_now;
	workers->slow_tags[workers->running[NET_JOB_SLOW]] = (struct net_slow_tag){job->key, job->tag};
	return job;
}

static void slow_finished(struct net_workers *workers, const struct net_slow_tag *tag)
{
	unsigned i = 0;
	while (workers->slow_tags[i].key != tag->key || workers->slow_tags[i].tag != tag->tag)
		i++;
	workers->slow_tags[i] = workers->slow_tags[workers->running[NET_JOB_SLOW] - 1];
}

/* ---- fast jobs; with the lock held ---- */

static unsigned fast_slots(const struct net_workers *workers)
{
	unsigned others = workers->slots[NET_JOB_SLOW] + workers->slots[NET_JOB_HANDSHAKE];
	return workers->thread_count > others ? workers->thread_count - others : 1;
}

static bool fast_may_run(const void *context, const struct net_job *job)
{
	const struct net_workers *workers = context;
	unsigned of_key = 0, of_group = 0, slots = fast_slots(workers), most = slots > 1 ? slots - 1 : 1;
	for (unsigned i = 0; i < workers->running[NET_JOB_FAST]; i++) {
		of_key += workers->fast_turns[i].key == job->key && workers->fast_turns[i].group == job->group;
		of_group += job->group && workers->fast_turns[i].group == job->group;
	}
	return of_key < most && of_group < most;
}

static struct net_job *fast_pop(struct net_workers *workers)
{
	struct net_job *job = fair_pop(&workers->fast, fast_may_run, workers);
	if (job)
		workers->fast_turns[workers->running[NET_JOB_FAST]] = (struct net_turn){job->group, job->key};
	return job;
}

static void fast_finished(struct net_workers *workers, const struct net_turn *turn)
{
	unsigned i = 0;
	while (workers->fast_turns[i].key != turn->key || workers->fast_turns[i].group != turn->group)
		i++;
	workers->fast_turns[i] = workers->fast_turns[workers->running[NET_JOB_FAST] - 1];
}

static bool any_may_run(const void *context, const struct net_job *job)
{
	return true;
}

/* ---- all; with the lock held ---- */

static struct net_job *next_job(struct net_workers *workers)
{
	struct net_job *job = NULL;
	if (workers->running[NET_JOB_HANDSHAKE] < workers->slots[NET_JOB_HANDSHAKE])
		job = fair_pop(&workers->handshakes, any_may_run, NULL);
	if (!job && workers->running[NET_JOB_FAST] < fast_slots(workers))
		job = fast_pop(workers);
	if (!job && workers->running[NET_JOB_SLOW] < workers->slots[NET_JOB_SLOW])
		job = slow_pop(workers);
	if (job)
		workers->running[job->kind]++;
	return job;
}

/* What a job was when it began: it may be made ready for another turn while it runs. */
struct running_job {
	enum net_job_kind kind;
	struct net_turn turn;
	struct net_slow_tag tag;
};

static struct running_job begin(const struct net_job *job)
{
	return (struct running_job){job->kind, {job->group, job->key}, {job->key, job->tag}};
}

static void finished(struct net_workers *workers, const struct running_job *job)
{
	if (job->kind == NET_JOB_SLOW)
		slow_finished(workers, &job->tag);
	else if (job->kind == NET_JOB_FAST)
		fast_finished(workers, &job->turn);
	workers->running[job->kind]--;
}

/* With the lock held, which is released meanwhile. */
static void run(struct net_workers *workers, struct net_job *job)
{
	struct running_job begun = begin(job);
	pthread_mutex_unlock(&workers->lock);
	job->run(job);
	pthread_mutex_lock(&workers->lock);
	finished(workers, &begun);
	bool tell = hand_over(workers, &workers->finished, job);
	/* Who is woken may get this CPU at once: never with the lock, which the loop may be waiting for. This thread looks for
	 * one job; the place that it left may have been what two waited for. */
	pthread_mutex_unlock(&workers->lock);
	pthread_cond_signal(&workers->work);
	if (tell)
		workers->notify(workers->context);
	pthread_mutex_lock(&workers->lock);
}

static void *work(void *context)
{
	struct net_workers *workers = context;
	pthread_mutex_lock(&workers->lock);
	for (;;) {
		struct net_job *job = next_job(workers);
		if (job)
			run(workers, job);
		else if (workers->stopping)
			break;
		else
			pthread_cond_wait(&workers->work, &workers->lock);
	}
	pthread_mutex_unlock(&workers->lock);
	return NULL;
}

int workers_init(struct net_workers *workers, unsigned thread_count, void (*notify)(void *context), void *context,
		 struct error *err)
{
	*workers = (struct net_workers){.notify = notify,
					.context = context,
					.slots = {[NET_JOB_SLOW] = 1},
					.queue_max = {NET_QUEUE_MAX, NET_QUEUE_MAX, NET_HANDSHAKES_MAX}};
	jobs_init(&workers->slow);
	jobs_init(&workers->finished);
	jobs_init(&workers->woken);
	pthread_mutex_init(&workers->lock, NULL);
	pthread_cond_init(&workers->work, NULL);
	bool whole = fair_init(&workers->fast, FAIR_KEYS) == 0 && fair_init(&workers->handshakes, NET_HANDSHAKES_MAX) == 0;
	if (whole && thread_count == 0)
		return 0;
	workers->threads = whole ? mem_zalloc_array(thread_count, sizeof(*workers->threads)) : NULL;
	int r = workers->threads ? 0 : error_nomem(err);
	while (r == 0 && workers->thread_count < thread_count) {
		r = thread_start(&workers->threads[workers->thread_count], "wick-http", work, workers, err);
		workers->thread_count += r == 0;
	}
	if (r < 0)
		workers_release(workers);
	return r;
}

void workers_release(struct net_workers *workers)
{
	pthread_mutex_lock(&workers->lock);
	workers->stopping = true;
	pthread_cond_broadcast(&workers->work);
	pthread_mutex_unlock(&workers->lock);
	for (unsigned i = 0; i < workers->thread_count; i++)
		pthread_join(workers->threads[i], NULL);
	workers->thread_count = 0;
	workers->threads = mem_free(workers->threads);
	fair_release(&workers->fast);
	fair_release(&workers->handshakes);
	pthread_cond_destroy(&workers->work);
	pthread_mutex_destroy(&workers->lock);
}

static size_t waiting(const struct net_workers *workers, enum net_job_kind kind)
{
	return kind == NET_JOB_SLOW   ? workers->slow.count
	       : kind == NET_JOB_FAST ? workers->fast.count
				      : workers->handshakes.count;
}

void workers_count(struct net_workers *workers, enum net_job_kind kind, uint64_t *ret_running, uint64_t *ret_waiting,
		   uint64_t *ret_refused)
{
	THREAD_LOCK_SCOPE(&workers->lock);
	*ret_running = workers->running[kind];
	*ret_waiting = waiting(workers, kind);
	*ret_refused = workers->refused[kind];
}

/* With the lock held: whether there is room for `job`, which another one may have to make. *ret_tell: the loop is to be woken.
 */
static bool make_room(struct net_workers *workers, struct net_job *job, bool *ret_tell)
{
	enum net_job_kind kind = job->kind;
	/* A thread that is free has not taken its job yet. */
	size_t free_slots = kind == NET_JOB_SLOW ? workers->slots[kind] - workers->running[kind] : 0;
	if (waiting(workers, kind) < workers->queue_max[kind] + free_slots)
		return true;
	workers->refused[kind]++;
	struct net_job *other = kind == NET_JOB_FAST	    ? fair_displace(&workers->fast, job)
				: kind == NET_JOB_HANDSHAKE ? fair_displace(&workers->handshakes, job)
							    : NULL;
	if (!other)
		return false;
	other->displaced = true;
	*ret_tell = hand_over(workers, &workers->finished, other);
	return true;
}

/* With the lock held; false if it is full. */
static bool queue(struct net_workers *workers, struct net_job *job, bool always, bool *ret_tell)
{
	if (!always && !make_room(workers, job, ret_tell))
		return false;
	job->displaced = false;
	job->must_run = always;
	if (job->kind == NET_JOB_SLOW)
		slow_push(workers, job);
	else
		fair_push(job->kind == NET_JOB_FAST ? &workers->fast : &workers->handshakes, job);
	workers->out++;
	return true;
}

int workers_submit(struct net_workers *workers, struct net_job *job, bool always)
{
	bool tell = false;
	pthread_mutex_lock(&workers->lock);
	bool queued = queue(workers, job, always, &tell);
	pthread_mutex_unlock(&workers->lock);
	if (tell)
		workers->notify(workers->context);
	/* Without the lock, which is the first thing that the thread asks for. */
	if (queued)
		pthread_cond_signal(&workers->work);
	return queued ? 0 : -EBUSY;
}

void workers_wake(struct net_workers *workers, struct net_job *woken)
{
	pthread_mutex_lock(&workers->lock);
	bool tell = hand_over(workers, &workers->woken, woken);
	pthread_mutex_unlock(&workers->lock);
	if (tell)
		workers->notify(workers->context);
}

/* The woken first: done() of a finished job may free what a woken one points to. */
void workers_collect(struct net_workers *workers)
{
	pthread_mutex_lock(&workers->lock);
	struct net_job *woken = jobs_take_all(&workers->woken), *finished = jobs_take_all(&workers->finished), *next;
	pthread_mutex_unlock(&workers->lock);
	for (; woken; woken = next) {
		next = woken->next;
		woken->done(woken);
	}
	for (; finished; finished = next) {
		next = finished->next;
		workers->out--;
		finished->done(finished);
	}
}

void workers_run_here(struct net_workers *workers)
{
	assert(workers->thread_count == 0);
	struct net_job *job;
	while ((job = next_job(workers))) {
		struct running_job begun = begin(job);
		job->run(job);
		finished(workers, &begun);
		jobs_push(&workers->finished, job);
	}
	workers_collect(workers);
}
