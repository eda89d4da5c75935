/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker threads. Handlers may read disks and wait for fsync; the loop may not. Three lists under one lock: jobs that wait for
 * a thread (bounded: beyond it the server says 503 rather than grow a backlog that nobody waits for any more), jobs that a
 * thread has finished, and streams that have something to send. The loop is woken once, when the last two stop being empty.
 *
 * Slow jobs (queries) wait in a list of their own and have threads of their own, so that whatever they cost, uploads and health
 * checks go on. Among them each client gets its turn: a job's tag is one more than that of the client's job before it, or than
 * the tag served last if there is none (start-time fair queueing with a cost of 1), and the lowest tag runs. A client with a
 * hundred jobs waiting thus delays the first job of another by one job. And no client has all the threads, as long as there are
 * two: what runs for half a minute would otherwise keep everybody else out.
 */
#include <assert.h>
#include <errno.h>

#include "base/alloc.h"
#include "net/net_int.h"

static void jobs_init(struct net_jobs *jobs)
{
	*jobs = (struct net_jobs){.last = &jobs->first};
}

static void jobs_push(struct net_jobs *jobs, struct net_job *job)
{
	job->next = NULL;
	*jobs->last = job;
	jobs->last = &job->next;
	jobs->count++;
}

static struct net_job *jobs_pop(struct net_jobs *jobs)
{
	struct net_job *job = jobs->first;
	if (!job)
		return NULL;
	jobs->first = job->next;
	if (!jobs->first)
		jobs->last = &jobs->first;
	jobs->count--;
	return job;
}

static struct net_job *jobs_take_all(struct net_jobs *jobs)
{
	struct net_job *all = jobs->first;
	jobs_init(jobs);
	return all;
}

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
	for (unsigned i = 0; i < workers->slow_running; i++)
		if (workers->slow_tags[i].key == job->key && workers->slow_tags[i].tag > last)
			last = workers->slow_tags[i].tag;
	job->tag = last + 1;
	jobs_push(&workers->slow, job);
}

static bool slow_may_run(const struct net_workers *workers, const struct net_job *job)
{
	unsigned running = 0, most = workers->slow_slots > 1 ? workers->slow_slots - 1 : 1;
	for (unsigned i = 0; i < workers->slow_running; i++)
		running += workers->slow_tags[i].key == job->key;
	return running < most;
}

static struct net_job *slow_pop(struct net_workers *workers)
{
	struct net_job **best = NULL, *job;
	if (workers->slow_running >= workers->slow_slots)
		return NULL;
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
	workers->slow_tags[workers->slow_running++] = (struct net_slow_tag){job->key, job->tag};
	return job;
}

static void slow_finished(struct net_workers *workers, const struct net_job *job)
{
	unsigned i = 0;
	while (workers->slow_tags[i].key != job->key || workers->slow_tags[i].tag != job->tag)
		i++;
	workers->slow_tags[i] = workers->slow_tags[--workers->slow_running];
	/* The thread that finished looks for one job; the place that it left may have been what two waited for. */
	pthread_cond_signal(&workers->work);
}

static struct net_job *next_job(struct net_workers *workers)
{
	struct net_job *job = jobs_pop(&workers->waiting);
	return job ? job : slow_pop(workers);
}

/* With the lock held, which is released meanwhile. */
static void run(struct net_workers *workers, struct net_job *job)
{
	pthread_mutex_unlock(&workers->lock);
	job->run(job);
	pthread_mutex_lock(&workers->lock);
	if (job->slow)
		slow_finished(workers, job);
	if (hand_over(workers, &workers->finished, job)) {
		pthread_mutex_unlock(&workers->lock);
		workers->notify(workers->context);
		pthread_mutex_lock(&workers->lock);
	}
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
	*workers = (struct net_workers){.notify = notify, .context = context, .slow_slots = 1, .slow_queue_max = NET_QUEUE_MAX};
	jobs_init(&workers->waiting);
	jobs_init(&workers->slow);
	jobs_init(&workers->finished);
	jobs_init(&workers->woken);
	pthread_mutex_init(&workers->lock, NULL);
	pthread_cond_init(&workers->work, NULL);
	if (thread_count == 0)
		return 0;
	workers->threads = mem_zalloc_array(thread_count, sizeof(*workers->threads));
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
	pthread_cond_destroy(&workers->work);
	pthread_mutex_destroy(&workers->lock);
}

void workers_count_slow(struct net_workers *workers, uint64_t *ret_running, uint64_t *ret_waiting, uint64_t *ret_refused)
{
	THREAD_LOCK_SCOPE(&workers->lock);
	*ret_running = workers->slow_running;
	*ret_waiting = workers->slow.count;
	*ret_refused = workers->slow_refused;
}

/* With the lock held; false if it is full. */
static bool queue(struct net_workers *workers, struct net_job *job, bool always)
{
	/* A thread that is free has not taken its job yet. */
	size_t slow_max = workers->slow_queue_max + workers->slow_slots - workers->slow_running;
	bool full = job->slow ? workers->slow.count >= slow_max : workers->waiting.count >= NET_QUEUE_MAX;
	if (full && !always) {
		workers->slow_refused += job->slow;
		return false;
	}
	if (job->slow)
		slow_push(workers, job);
	else
		jobs_push(&workers->waiting, job);
	workers->out++;
	return true;
}

int workers_submit(struct net_workers *workers, struct net_job *job, bool always)
{
	pthread_mutex_lock(&workers->lock);
	bool queued = queue(workers, job, always);
	pthread_mutex_unlock(&workers->lock);
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
		job->run(job);
		if (job->slow)
			slow_finished(workers, job);
		jobs_push(&workers->finished, job);
	}
	workers_collect(workers);
}
