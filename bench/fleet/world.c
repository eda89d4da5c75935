/* SPDX-License-Identifier: Apache-2.0 */
/* Who runs what, when. Everything is a hash of the seed and of who or when, so that any part of the history can be had alone.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/fleet/fleet.h"

#define HOUR_NS	   (3600 * NS_PER_S)
#define ROLLOUT_NS HOUR_NS /* a deploy reaches the last pod after that long */
#define DEDUP	   8192	   /* slots of the table in which equal samples of a flush meet */

static const char *const words[] = {"checkout", "cart",	   "search",  "login",	 "orders", "billing", "catalog", "images",
				    "mailer",	"ranking", "reports", "gateway", "ledger", "quotes",  "routing", "stock"};

static double normal(uint64_t *state)
{
	double u = fleet_unit(state), v = fleet_unit(state);
	return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

/* ---- services ---- */

struct ranked {
	double key;
	uint32_t stack;
};

static int compare_ranked(const void *a, const void *b)
{
	double x = ((const struct ranked *)a)->key, y = ((const struct ranked *)b)->key;
	return (x > y) - (x < y);
}

/* Services with the same workload have most of its hot stacks in common, in an order of their own. */
static int rank_stacks(struct fleet_service *service, size_t most, uint64_t state, struct error *err)
{
	const struct fleet_workload *workload = service->workload;
	size_t count = workload->stack_count;
	struct ranked *ranked = mem_alloc_array(count, sizeof(*ranked));
	if (!ranked)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++)
		ranked[i] = (struct ranked){(double)(i + 1) * exp(normal(&state)), workload->stacks[i]};
	qsort(ranked, count, sizeof(*ranked), compare_ranked);
	service->stack_count = count < most ? count : most;
	service->stacks = mem_alloc_array(service->stack_count, sizeof(*service->stacks));
	for (size_t i = 0; service->stacks && i < service->stack_count; i++)
		service->stacks[i] = ranked[i].stack;
	mem_free(ranked);
	return service->stacks ? 0 : error_nomem(err);
}

static int make_service(struct fleet *fleet, unsigned index, struct error *err)
{
	struct fleet_service *service = &fleet->services[index];
	const struct fleet_options *options = &fleet->options;
	uint64_t state = fleet_hash(options->seed, 1000 + index);
	snprintf(service->name, sizeof(service->name), "%s-%02u", words[index % 16], index);
	service->workload = &fleet->model->workloads[index % fleet->model->workload_count];
	service->is_native = fleet_unit(&state) * 100 < options->native_percent;
	service->has_memory = !service->is_native && fleet_unit(&state) * 100 < options->memory_percent;
	service->thread_count = 1 + (unsigned)(fleet_unit(&state) * FLEET_THREADS_MAX);
	service->weight = exp(0.7 * normal(&state));
	service->deploy_every_ns = (int64_t)(options->deploy_days * 24 * (0.5 + fleet_unit(&state)) * HOUR_NS);
	service->deploy_phase_ns = (int64_t)(fleet_unit(&state) * (double)service->deploy_every_ns);
	return rank_stacks(service, options->stacks, state, err);
}

unsigned fleet_thread_of(const struct fleet_service *service, uint32_t rank)
{
	return (unsigned)(hash64_mix(rank) % service->thread_count);
}

/* ---- tables of popularity ---- */

/* Walker's alias method, with thresholds of 32 bits. */
static int make_zipf(struct fleet *fleet, uint32_t count, struct error *err)
{
	double *share = mem_alloc_array(count, sizeof(*share)), sum = 0;
	uint32_t *small = mem_alloc_array(count, sizeof(*small)), *large = mem_alloc_array(count, sizeof(*large));
	fleet->alias = mem_zalloc_array(count, sizeof(*fleet->alias));
	fleet->alias_cut = mem_zalloc_array(count, sizeof(*fleet->alias_cut));
	fleet->zipf_count = count;
	int r = share && small && large && fleet->alias && fleet->alias_cut ? 0 : error_nomem(err);
	for (uint32_t i = 0; r == 0 && i < count; i++)
		sum += share[i] = 1.0 / (i + 1);
	uint32_t smalls = 0, larges = 0;
	for (uint32_t i = 0; r == 0 && i < count; i++) {
		share[i] *= count / sum;
		if (share[i] < 1)
			small[smalls++] = i;
		else
			large[larges++] = i;
	}
	while (r == 0 && smalls && larges) {
		uint32_t low = small[--smalls], high = large[larges - 1];
		fleet->alias[low] = high;
		fleet->alias_cut[low] = (uint32_t)(share[low] * 4294967295.0);
		share[high] -= 1 - share[low];
		if (share[high] < 1) {
			larges--;
			small[smalls++] = high;
		}
	}
	while (r == 0 && (smalls || larges)) {
		uint32_t last = smalls ? small[--smalls] : large[--larges];
		fleet->alias[last] = last;
		fleet->alias_cut[last] = UINT32_MAX;
	}
	mem_free(share);
	mem_free(small);
	mem_free(large);
	return r;
}

static uint32_t draw_rank(const struct fleet *fleet, const struct fleet_service *service, uint64_t *state)
{
	for (;;) {
		*state += 0x9e3779b97f4a7c15ull;
		uint64_t random = hash64_mix(*state);
		uint32_t at = (uint32_t)(((random >> 32) * fleet->zipf_count) >> 32);
		uint32_t rank = (uint32_t)random <= fleet->alias_cut[at] ? at : fleet->alias[at];
		if (rank < service->stack_count)
			return rank;
	}
}

static uint32_t draw_service(const struct fleet *fleet, double u)
{
	uint32_t low = 0, high = fleet->options.services - 1;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (fleet->service_ends[middle] > u)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* ---- pods ---- */

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* Who is in a slot of a host at a time, and until when. */
static void place_pod(struct fleet *fleet, struct fleet_host *host, unsigned slot, int64_t time_ns)
{
	struct fleet_pod *pod = &host->pods[slot];
	uint64_t state = fleet_hash(host->hash, slot);
	int64_t life_ns = (int64_t)(fleet->options.pod_hours * (0.5 + fleet_unit(&state)) * HOUR_NS);
	int64_t phase_ns = (int64_t)(fleet_unit(&state) * (double)life_ns),
		roll_ns = (int64_t)(fleet_unit(&state) * ROLLOUT_NS);
	int64_t number = floor_div(time_ns - phase_ns, life_ns);
	state = fleet_hash(state, (uint64_t)number);
	pod->service = draw_service(fleet, fleet_unit(&state));
	const struct fleet_service *service = &fleet->services[pod->service];
	int64_t shift_ns = service->deploy_phase_ns + roll_ns;
	int64_t version = floor_div(time_ns - shift_ns, service->deploy_every_ns);
	int64_t life_end = (number + 1) * life_ns + phase_ns, deploy_end = (version + 1) * service->deploy_every_ns + shift_ns;
	pod->version = (uint32_t)version;
	pod->until_ns = life_end < deploy_end ? life_end : deploy_end;
	pod->id = fleet_hash(fleet_hash(state, pod->service), pod->version);
	pod->weight = service->weight * (0.5 + fleet_unit(&state));
}

/* ---- load ---- */

/* Of the mean: a wave with its high at 15 h of the region's day, and two calmer days a week. */
static double activity(const struct fleet_host *host, unsigned index, int64_t time_ns)
{
	double days = (double)(time_ns / NS_PER_S) / 86400 + (double)(index % 3) / 3;
	double wave = 1 + 0.55 * cos(6.283185307179586 * (days - 0.625)), week = fmod(floor(days), 7) < 2 ? 0.75 : 1.1;
	return host->weight * wave * week;
}

static unsigned pick_pod(const double *ends, unsigned count, double u)
{
	unsigned pod = 0;
	while (pod + 1 < count && ends[pod] <= u)
		pod++;
	return pod;
}

struct dedup {
	uint64_t keys[DEDUP];
	uint32_t places[DEDUP], stamps[DEDUP], stamp;
};

static int add_sample(struct fleet_flush *flush, struct dedup *dedup, unsigned pod, uint32_t rank, uint32_t count)
{
	uint64_t key = (uint64_t)pod << 32 | rank;
	size_t at = hash64_mix(key) & (DEDUP - 1);
	while (dedup->stamps[at] == dedup->stamp && dedup->keys[at] != key)
		at = (at + 1) & (DEDUP - 1);
	if (dedup->stamps[at] == dedup->stamp) {
		flush->samples[dedup->places[at]].count += count;
		return 0;
	}
	if (flush->count == DEDUP / 2)
		return -E2BIG;
	if (array_reserve(&flush->samples, &flush->capacity, flush->count + 1, DEDUP) < 0)
		return -ENOMEM;
	dedup->stamps[at] = dedup->stamp;
	dedup->keys[at] = key;
	dedup->places[at] = (uint32_t)flush->count;
	flush->samples[flush->count++] = (struct fleet_sample){(uint16_t)pod, rank, count};
	return 0;
}

static _Thread_local struct dedup dedup;

static void begin(struct fleet *fleet, unsigned host, uint64_t tick, struct fleet_flush *ret)
{
	ret->host = host;
	ret->time_ns = fleet->options.start_ns + (int64_t)tick * FLEET_FLUSH_NS + fleet->hosts[host].offset_ns;
	ret->pods = fleet->hosts[host].pods;
	ret->count = 0;
	ret->events = 0;
	dedup.stamp++;
}

int fleet_flush(struct fleet *fleet, unsigned index, uint64_t tick, struct fleet_flush *ret, struct error *err)
{
	struct fleet_host *host = &fleet->hosts[index];
	const struct fleet_options *options = &fleet->options;
	double ends[FLEET_PODS_MAX], sum = 0;
	begin(fleet, index, tick, ret);
	uint64_t state = fleet_hash(host->hash, (uint64_t)ret->time_ns);
	for (unsigned i = 0; i < options->pods_per_host; i++) {
		if (host->pods[i].until_ns <= ret->time_ns)
			place_pod(fleet, host, i, ret->time_ns);
		ends[i] = sum += host->pods[i].weight;
	}
	double mean = options->cpus * options->frequency * options->busy * options->load * ((double)FLEET_FLUSH_NS / NS_PER_S) *
		      activity(host, index, ret->time_ns);
	double most = options->cpus * options->frequency * ((double)FLEET_FLUSH_NS / NS_PER_S);
	ret->events = (uint64_t)fmin(fmax(0, round(mean + sqrt(mean) * normal(&state))), most);
	for (uint64_t i = 0; i < ret->events; i++) {
		unsigned pod = pick_pod(ends, options->pods_per_host, fleet_unit(&state) * sum);
		uint32_t rank = draw_rank(fleet, &fleet->services[host->pods[pod].service], &state);
		int r = add_sample(ret, &dedup, pod, rank, 1);
		if (r < 0)
			return error_set_errno(err, r, "a flush of %llu samples", (unsigned long long)ret->events);
	}
	return 0;
}

int fleet_memory_flush(struct fleet *fleet, unsigned index, unsigned pod, uint64_t tick, struct fleet_flush *ret,
		       struct error *err)
{
	const struct fleet_pod *about = &fleet->hosts[index].pods[pod];
	const struct fleet_service *service = &fleet->services[about->service];
	if (!service->has_memory || (tick + about->id) % FLEET_MEMORY_EVERY)
		return 1;
	begin(fleet, index, tick, ret);
	uint64_t state = fleet_hash(about->id, (uint64_t)ret->time_ns);
	unsigned draws = (unsigned)(FLEET_MEMORY_DRAWS * fleet->options.load + 0.5);
	for (unsigned i = 0; i < draws; i++) {
		uint32_t rank = draw_rank(fleet, service, &state);
		uint32_t bytes = (uint32_t)(4096 << fleet_hash(about->service, rank) % 9);
		int r = add_sample(ret, &dedup, pod, rank, bytes + (uint32_t)(fleet_unit(&state) * bytes / 8) * 16);
		if (r < 0)
			return error_set_errno(err, r, "a heap profile");
	}
	return ret->count == 0;
}

/* ---- the whole ---- */

static void make_hosts(struct fleet *fleet)
{
	for (unsigned i = 0; i < fleet->options.hosts; i++) {
		struct fleet_host *host = &fleet->hosts[i];
		host->hash = fleet_hash(fleet->options.seed, 1000000 + i);
		uint64_t state = host->hash;
		host->weight = 0.5 + fleet_unit(&state);
		host->offset_ns = (int64_t)(fleet_unit(&state) * (FLEET_FLUSH_NS / NS_PER_MS)) * NS_PER_MS;
	}
}

uint64_t fleet_flush_count(const struct fleet *fleet)
{
	return (uint64_t)(fleet->options.duration_ns / FLEET_FLUSH_NS);
}

int fleet_new(const struct fleet_options *options, struct fleet_model *model, struct fleet **ret, struct error *err)
{
	struct fleet *fleet = mem_zalloc(sizeof(*fleet));
	if (!fleet)
		return error_nomem(err);
	fleet->options = *options;
	fleet->model = model;
	fleet->services = mem_zalloc_array(options->services, sizeof(*fleet->services));
	fleet->hosts = mem_zalloc_array(options->hosts, sizeof(*fleet->hosts));
	fleet->service_ends = mem_alloc_array(options->services, sizeof(double));
	int r = fleet->services && fleet->hosts && fleet->service_ends ? make_zipf(fleet, options->stacks, err)
								       : error_nomem(err);
	double sum = 0, end = 0;
	for (unsigned i = 0; r == 0 && i < options->services; i++) {
		sum += 1.0 / (i + 1);
		r = make_service(fleet, i, err);
	}
	if (r < 0) {
		fleet_free(fleet);
		return r;
	}
	for (unsigned i = 0; i < options->services; i++)
		fleet->service_ends[i] = end += 1.0 / (i + 1) / sum;
	make_hosts(fleet);
	*ret = fleet;
	return 0;
}

void fleet_free(struct fleet *fleet)
{
	if (!fleet)
		return;
	for (unsigned i = 0; fleet->services && i < fleet->options.services; i++)
		mem_free(fleet->services[i].stacks);
	mem_free(fleet->services);
	mem_free(fleet->hosts);
	mem_free(fleet->service_ends);
	mem_free(fleet->alias);
	mem_free(fleet->alias_cut);
	mem_free(fleet);
}
