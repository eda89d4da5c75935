/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fleet to test with: the profiles that H hosts with S services and their pods would send, as a function of a seed and the
 * time. What a host sends in one flush depends on nothing but the options, so the same history can be sent through the real
 * ingest path, appended to a store, or written straight into blocks, and tests can run a part of it again.
 *
 *   model.c   workloads: stacks of real recorded profiles (or of an invented call tree when there are none)
 *   world.c   services, deploys, pods, popularity and load: what was sampled in one flush of one host
 *   truth.c   one service more, of which everything is known (--truths)
 *   emit.c    flushes as struct profile
 *   agents.c  the health that agents of a live fleet report
 *   blocks.c  a window of time as a block            send.c  flushes over HTTP, or into a store
 *
 * The load. A host samples cpus * frequency * busy events a second, more by day than by night, less at weekends. Each is in one
 * of the host's pods and has one of the service's stacks, by Zipf's law over the service's own ranking of the workload's real
 * stacks. Equal stacks of one flush meet in one sample, as the agent does. Pods come and go, and are replaced when the service
 * is deployed. Native services send addresses and build-ids, so a deploy changes their stacks; the others send names, as SDKs
 * with pprof do, and keep theirs. Some of those send a heap profile of each pod once a minute.
 */
#ifndef WICK_BENCH_FLEET_H
#define WICK_BENCH_FLEET_H

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/map.h"
#include "base/time.h"
#include "profile/profile.h"

#define FLEET_FLUSH_NS	    (10 * NS_PER_S)
#define FLEET_MEMORY_EVERY  6 /* flushes between two heap profiles of a pod */
#define FLEET_MEMORY_DRAWS  80
#define FLEET_WORKLOADS_MAX 32
#define FLEET_THREADS_MAX   4
#define FLEET_PODS_MAX	    64 /* of one host */

struct fleet_options {
	unsigned hosts, services, pods_per_host, cpus, stacks, native_percent, memory_percent;
	double frequency, busy, load, deploy_days, pod_hours;
	uint64_t seed;
	int64_t start_ns, duration_ns;
	bool has_truths;
	int64_t deploy_ns; /* of the planted service; INT64_MAX = never */
	bool is_live;	   /* what has not happened yet is waited for, and there is no end */
};

/* ---- model.c ---- */

struct fleet_workload {
	char name[32];
	struct profile *profile;
	uint32_t *stacks; /* distinct, by falling number of samples */
	size_t stack_count;
	bool *is_app; /* by mapping: the binary that the service would deploy */
};
struct fleet_model {
	struct fleet_workload workloads[FLEET_WORKLOADS_MAX];
	size_t workload_count;
	bool is_synthetic;
	double mean_depth;
};
/* All *.pb of the directory; without any, or with NULL, invented ones. */
int fleet_model_load(const char *directory, struct fleet_model *ret, struct error *err);
void fleet_model_release(struct fleet_model *model);

/* ---- world.c ---- */

struct fleet_service {
	char name[32];
	const struct fleet_workload *workload;
	bool is_native, has_memory;
	uint32_t *stacks; /* of the workload, by the service's own popularity */
	size_t stack_count;
	unsigned thread_count;
	double weight; /* CPU of a pod against that of another service's */
	int64_t deploy_every_ns, deploy_phase_ns;
};
struct fleet_pod {
	uint64_t id;
	uint32_t service, version;
	int64_t until_ns; /* the slot has another pod from then on */
	double weight;
};
struct fleet_host {
	uint64_t hash;
	double weight;
	int64_t offset_ns; /* of its flushes */
	struct fleet_pod pods[FLEET_PODS_MAX];
};
struct fleet {
	struct fleet_options options;
	struct fleet_model *model;
	struct fleet_service *services;
	struct fleet_host *hosts;
	double *service_ends;			 /* cumulated popularity */
	uint32_t *alias, *alias_cut, zipf_count; /* Walker's table of Zipf's law over ranks */
};
struct fleet_sample {
	uint16_t pod;
	uint32_t rank, count;
};
struct fleet_flush {
	unsigned host;
	int64_t time_ns;
	const struct fleet_pod *pods;
	struct fleet_sample *samples;
	size_t count, capacity;
	uint64_t events;
};
int fleet_new(const struct fleet_options *options, struct fleet_model *model, struct fleet **ret, struct error *err);
void fleet_free(struct fleet *fleet);
uint64_t fleet_flush_count(const struct fleet *fleet);
/* What the host sampled in its flush number `tick`. Ticks of a host must not go back. */
int fleet_flush(struct fleet *fleet, unsigned host, uint64_t tick, struct fleet_flush *ret, struct error *err);
/* The heap profile that the pod sends with that flush; samples' count is bytes. 1 = it sends none then. */
int fleet_memory_flush(struct fleet *fleet, unsigned host, unsigned pod, uint64_t tick, struct fleet_flush *ret,
		       struct error *err);
unsigned fleet_thread_of(const struct fleet_service *service, uint32_t rank);

/* ---- emit.c ---- */

struct fleet_binding; /* what of a service's version is in the profile already */
struct fleet_emitter {
	const struct fleet *fleet;
	struct profile *profile;
	struct fleet_binding *bindings; /* 2 a service: versions overlap while a deploy rolls on */
	struct map64 label_sets;
	uint32_t generation;
	bool is_window; /* many hosts and times in one profile: samples carry their own */
	bool is_memory;
};
int fleet_emitter_new(const struct fleet *fleet, bool is_window, bool is_memory, struct fleet_emitter **ret, struct error *err);
void fleet_emitter_free(struct fleet_emitter *emitter);
/* Begins a profile; take it with emitter->profile = NULL. */
int fleet_emit_begin(struct fleet_emitter *emitter, const struct fleet_flush *flush, struct error *err);
int fleet_emit(struct fleet_emitter *emitter, const struct fleet_flush *flush, struct error *err);

/* A set of labels of the emitter's profile, besides those of the host; at most 12. */
struct fleet_labels {
	const char *name, *value;
};
int fleet_emit_labels(struct fleet_emitter *emitter, unsigned host, const struct fleet_labels *labels, size_t count,
		      uint32_t *ret, struct error *err);

/* "host-0042.us-east-1.example.org" */
void fleet_host_name(unsigned host, char *ret, size_t size);

/* ---- agents.c ---- */

/* The question that the host's agent asks its server, as JSON. */
int fleet_agent_poll(const struct fleet *fleet, unsigned host, int64_t now_ns, struct buffer *out, struct error *err);

/* ---- truth.c ---- */

/* What the planted service's pod on that host sampled in that flush, added to emitter->profile. The host has a pod of it if
 * fleet_truth_is_on(). */
bool fleet_truth_is_on(const struct fleet *fleet, unsigned host);
int fleet_truth_emit(struct fleet_emitter *emitter, unsigned host, uint64_t tick, uint64_t *ret_events, struct error *err);

/* ---- blocks.c, send.c ---- */

struct fleet_totals {
	uint64_t appends, samples, events, bytes, blocks, stacks;
	int64_t generate_ns, write_ns; /* CPU time */
};
/* Writes flushes [from, to) as one block below DATA/blocks. */
int fleet_write_block(struct fleet *fleet, const char *data, uint64_t from_tick, uint64_t to_tick, struct fleet_totals *totals,
		      struct error *err);

struct fleet_sink {
	/* A request of one profile; returns when it is acknowledged. */
	int (*send)(void *context, struct profile *profile, struct fleet_totals *totals, struct error *err);
	/* What the host's agent asks, of a live fleet. */
	int (*poll)(void *context, struct bytes poll, struct error *err);
	void *context;
};
/* All flushes of hosts with host % parts == part, tick by tick. */
int fleet_send(struct fleet *fleet, unsigned part, unsigned parts, const struct fleet_sink *sink, struct fleet_totals *totals,
	       struct error *err);

static inline double fleet_unit(uint64_t *state) /* [0, 1) */
{
	*state += 0x9e3779b97f4a7c15ull;
	return (double)(hash64_mix(*state) >> 11) / (double)(1ull << 53);
}
static inline uint64_t fleet_hash(uint64_t a, uint64_t b)
{
	return hash64_mix(a * 0x9e3779b97f4a7c15ull + hash64_mix(b + 0x632be59bd9b4e019ull));
}

#endif
