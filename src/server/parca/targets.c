/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Parca's page shows under "Targets":
 *
 *   parca.scrape.v1alpha1.ScrapeService/Targets (proto/parca/scrape/v1alpha1/scrape.proto)
 *     1 state (0 any, 1 active, 2 dropped)
 *     ->  1 targets: job -> { 1 targets { 1 discovered_labels  2 labels  3 last_error  4 last_scrape  5 last_scrape_duration
 *                                         6 url  7 health (0 unknown, 1 good, 2 bad) } }
 *   parca.profilestore.v1alpha1.AgentsService/Agents (proto/parca/profilestore/v1alpha1/profilestore.proto)
 *     ->  1 agents { 1 id  2 last_error  3 last_push  4 last_push_duration }
 *
 * Targets that relabelling drops are not kept, only counted, so that none are in the state "dropped"; of the labels as
 * discovered what the target's address says is known. Agents are Wick's, by host, with the time of their last poll: Parca's
 * server, too, lists none of those that send Arrow records, as all of today do.
 */
#include <stdio.h>
#include <string.h>

#include "base/order.h"
#include "base/time.h"
#include "codec/protobuf.h"
#include "server/parca/parca_int.h"
#include "server/scrape/scrape_int.h"
#include "server/stores/agents.h"

#define STATE_DROPPED 2

static void write_label_set(struct buffer *out, uint32_t field, const struct labels *labels)
{
	size_t mark;
	pb_begin(out, field, &mark);
	for (size_t i = 0; i < labels->count; i++)
		pyroscope_write_label(out, labels->items[i].name, labels->items[i].value);
	pb_end(out, mark);
}

static void write_discovered(struct buffer *out, const struct scrape_target *target)
{
	const char *address = strstr(target->origin, "://");
	size_t mark;
	pb_begin(out, 1, &mark);
	pyroscope_write_label(out, "__address__", address ? address + 3 : target->origin);
	pyroscope_write_label(out, "__scheme__", target->job->scheme);
	pyroscope_write_label(out, "job", target->job->name);
	pb_end(out, mark);
}

static void write_target(struct buffer *out, const struct scrape_target *target)
{
	char url[1200];
	size_t mark;
	snprintf(url, sizeof(url), "%s%s", target->origin, target->path);
	pb_begin(out, 1, &mark);
	write_discovered(out, target);
	write_label_set(out, 2, &target->labels);
	pb_put_text(out, 3, bytes_of_string(target->error));
	if (target->last_ns) {
		parca_write_time(out, 4, target->last_ns);
		parca_write_time(out, 5, target->took_ns);
	}
	pb_put_text(out, 6, bytes_of_string(url));
	pb_put_varint(out, 7, (uint64_t)target->health);
	pb_end(out, mark);
}

DEFINE_ORDER_OF_PLACES(compare_jobs, struct scrape_target *, strcmp((*a)->job->name, (*b)->job->name));

/* An entry of the map for each job; under the scraper's lock. */
static int write_jobs(struct parca *p, const struct scrape *scrape, struct error *err)
{
	_cleanup_(mem_freep) uint32_t *order = mem_alloc_array(scrape->target_count + 1, sizeof(*order));
	const struct scrape_job *last = NULL;
	size_t entry = 0, targets = 0, count = 0;
	if (!order)
		return error_nomem(err);
	for (uint32_t i = 0; i < scrape->target_count; i++)
		if (tenant_owns(p->call.server, p->call.request, scrape->targets[i]->job->tenant))
			order[count++] = i;
	sort_array_by(order, count, compare_jobs, scrape->targets);
	for (size_t i = 0; i < count; i++) {
		const struct scrape_target *target = scrape->targets[order[i]];
		if (!last || strcmp(last->name, target->job->name) != 0) {
			if (last) {
				pb_end(p->out, targets);
				pb_end(p->out, entry);
			}
			pb_begin(p->out, 1, &entry);
			pb_put_text(p->out, 1, bytes_of_string(target->job->name));
			pb_begin(p->out, 2, &targets);
			last = target->job;
		}
		write_target(p->out, target);
	}
	if (last) {
		pb_end(p->out, targets);
		pb_end(p->out, entry);
	}
	return rpc_too_large(buffer_status(p->out), err);
}

static int answer_targets(struct parca *p, struct parca_request *in, struct error *err)
{
	struct scrape *scrape = p->call.server->scrape;
	if (!scrape || in->state == STATE_DROPPED)
		return 0;
	THREAD_LOCK_SCOPE(&scrape->lock);
	return write_jobs(p, scrape, err);
}
PARCA_HANDLER(targets)

static int answer_agents(struct parca *p, struct parca_request *in, struct error *err)
{
	struct agent_seen *seen = NULL;
	size_t count = 0, mark;
	int64_t now_ns = time_monotonic_ns(), wall_ns = time_now_ns();
	int r = agents_list(p->call.tenant->agents, now_ns, &seen, &count, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		pb_begin(p->out, 1, &mark);
		pb_put_text(p->out, 1, bytes_of_string(seen[i].host));
		if (seen[i].is_silent)
			pb_put_string(p->out, 2, "the agent has not polled for more than 30 seconds");
		parca_write_time(p->out, 3, wall_ns - (now_ns - seen[i].polled_ns));
		pb_end(p->out, mark);
	}
	agents_list_free(seen, count);
	return rpc_too_large(buffer_status(p->out), err);
}
PARCA_HANDLER(agents)

const struct rpc_method rpc_parca_targets[] = {
	PARCA_METHOD("/parca.scrape.v1alpha1.ScrapeService/Targets", PERMIT_READ, &parca_targets_request, &parca_targets_answer,
		     handle_targets, RPC_READ_ONLY),
	PARCA_METHOD("/parca.profilestore.v1alpha1.AgentsService/Agents", PERMIT_READ, &parca_empty, &parca_agents_answer,
		     handle_agents, RPC_READ_ONLY),
	{0},
};
