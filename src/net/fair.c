/* SPDX-License-Identifier: Apache-2.0 */
#include "net/fair.h"

#include <errno.h>

#include "base/alloc.h"
#include "net/net_int.h"

struct fair_flow {
	struct fair_flow *next, *previous; /* the ring of the group */
	struct fair_flow *chain;	   /* of the table; also of those that are free */
	struct fair_group *group;
	uint64_t key;
	struct net_jobs jobs; /* never empty */
};
struct fair_group {
	struct fair_group *next, *previous, *chain;
	uint64_t id;
	struct fair_flow *turn;
	size_t count; /* of jobs */
};

/* ---- lists ---- */

void jobs_init(struct net_jobs *jobs)
{
	*jobs = (struct net_jobs){.last = &jobs->first};
}

void jobs_push(struct net_jobs *jobs, struct net_job *job)
{
	job->next = NULL;
	*jobs->last = job;
	jobs->last = &job->next;
	jobs->count++;
}

struct net_job *jobs_pop(struct net_jobs *jobs)
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

struct net_job *jobs_pop_last(struct net_jobs *jobs)
{
	struct net_job **found = NULL, *job;
	for (struct net_job **at = &jobs->first; *at; at = &(*at)->next)
		found = (*at)->must_run ? found : at;
	if (!found)
		return NULL;
	job = *found;
	*found = job->next;
	if (!job->next)
		jobs->last = found;
	jobs->count--;
	return job;
}

struct net_job *jobs_take_all(struct net_jobs *jobs)
{
	struct net_job *all = jobs->first;
	jobs_init(jobs);
	return all;
}

/* ---- tables ---- */

static size_t bucket_of(uint64_t group, uint64_t key)
{
	return (size_t)(((group * 31 + key) * 0x9e3779b97f4a7c15ull) >> 40) % FAIR_BUCKETS;
}

static struct fair_group **find_group(struct fair_queue *queue, uint64_t id)
{
	struct fair_group **at = &queue->group_table[bucket_of(id, 0)];
	while (*at && (*at)->id != id)
		at = &(*at)->chain;
	return at;
}

static struct fair_flow **find_flow(struct fair_queue *queue, uint64_t group, uint64_t key)
{
	struct fair_flow **at = &queue->flow_table[bucket_of(group, key)];
	while (*at && ((*at)->key != key || (*at)->group->id != group))
		at = &(*at)->chain;
	return at;
}

/* Both are there, or neither is missing a place: every group has a flow. */
static struct fair_group *add_group(struct fair_queue *queue, uint64_t id)
{
	struct fair_group **at = find_group(queue, id), *group = *at;
	if (group)
		return group;
	group = queue->free_groups;
	if (group)
		queue->free_groups = group->chain;
	else
		group = &queue->groups[queue->groups_used++];
	*group = (struct fair_group){.id = id, .next = group, .previous = group};
	*at = group;
	if (queue->turn) { /* whose turn it is comes last after all others */
		group->next = queue->turn;
		group->previous = queue->turn->previous;
		group->previous->next = group->next->previous = group;
	} else {
		queue->turn = group;
	}
	return group;
}

static struct fair_flow *add_flow(struct fair_queue *queue, uint64_t group_id, uint64_t key)
{
	struct fair_flow **at = find_flow(queue, group_id, key), *flow = *at;
	if (flow)
		return flow;
	flow = queue->free_flows;
	if (flow)
		queue->free_flows = flow->chain;
	else if (queue->flows_used < queue->capacity)
		flow = &queue->flows[queue->flows_used++];
	else
		return NULL;
	struct fair_group *group = add_group(queue, group_id);
	*flow = (struct fair_flow){.key = key, .group = group, .next = flow, .previous = flow};
	jobs_init(&flow->jobs);
	*at = flow;
	if (group->turn) {
		flow->next = group->turn;
		flow->previous = group->turn->previous;
		flow->previous->next = flow->next->previous = flow;
	} else {
		group->turn = flow;
	}
	return flow;
}

static void remove_group(struct fair_queue *queue, struct fair_group *group)
{
	*find_group(queue, group->id) = group->chain;
	if (queue->turn == group)
		queue->turn = group->next == group ? NULL : group->next;
	group->next->previous = group->previous;
	group->previous->next = group->next;
	group->chain = queue->free_groups;
	queue->free_groups = group;
}

static void remove_flow(struct fair_queue *queue, struct fair_flow *flow)
{
	struct fair_group *group = flow->group;
	*find_flow(queue, group->id, flow->key) = flow->chain;
	if (group->turn == flow)
		group->turn = flow->next == flow ? NULL : flow->next;
	flow->next->previous = flow->previous;
	flow->previous->next = flow->next;
	flow->chain = queue->free_flows;
	queue->free_flows = flow;
	if (!group->turn)
		remove_group(queue, group);
}

/* ---- the queue ---- */

int fair_init(struct fair_queue *queue, size_t capacity)
{
	*queue = (struct fair_queue){.capacity = capacity};
	jobs_init(&queue->extra);
	queue->flows = mem_zalloc_array(capacity, sizeof(*queue->flows));
	queue->groups = mem_zalloc_array(capacity, sizeof(*queue->groups));
	if (queue->flows && queue->groups)
		return 0;
	fair_release(queue);
	return -ENOMEM;
}

void fair_release(struct fair_queue *queue)
{
	queue->flows = mem_free(queue->flows);
	queue->groups = mem_free(queue->groups);
}

void fair_push(struct fair_queue *queue, struct net_job *job)
{
	struct fair_flow *flow = add_flow(queue, job->group, job->key);
	jobs_push(flow ? &flow->jobs : &queue->extra, job);
	if (flow)
		flow->group->count++;
	queue->count++;
}

static struct net_job *take(struct fair_queue *queue, struct fair_flow *flow, struct net_job *(*pop)(struct net_jobs *jobs))
{
	struct net_job *job = pop(&flow->jobs);
	if (!job)
		return NULL;
	flow->group->count--;
	queue->count--;
	if (!flow->jobs.count)
		remove_flow(queue, flow);
	return job;
}

struct net_job *fair_pop(struct fair_queue *queue, bool (*may_run)(const void *context, const struct net_job *job),
			 const void *context)
{
	struct fair_group *group = queue->turn;
	if (queue->extra.first) {
		queue->count--;
		return jobs_pop(&queue->extra);
	}
	if (!group)
		return NULL;
	do {
		struct fair_flow *flow = group->turn;
		do {
			if (may_run(context, flow->jobs.first)) {
				queue->turn = group->next;
				group->turn = flow->next;
				return take(queue, flow, jobs_pop);
			}
			flow = flow->next;
		} while (flow != group->turn);
		group = group->next;
	} while (group != queue->turn);
	return NULL;
}

struct net_job *fair_displace(struct fair_queue *queue, const struct net_job *newcomer)
{
	struct fair_group *own = *find_group(queue, newcomer->group), *most = queue->turn;
	struct fair_flow *flow = *find_flow(queue, newcomer->group, newcomer->key), *longest;
	size_t own_jobs = flow ? flow->jobs.count : 0, own_group = own ? own->count : 0;
	if (!most)
		return NULL;
	for (struct fair_group *at = most->next; at != queue->turn; at = at->next)
		most = at->count > most->count ? at : most;
	if (most->count <= own_group + 1)
		most = own;
	if (!most)
		return NULL;
	longest = most->turn;
	for (flow = longest->next; flow != most->turn; flow = flow->next)
		longest = flow->jobs.count > longest->jobs.count ? flow : longest;
	if (most == own && longest->jobs.count <= own_jobs + 1)
		return NULL;
	return take(queue, longest, jobs_pop_last);
}
