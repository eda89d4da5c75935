/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scrape_configs: the names are Prometheus' (its "Configuration" page: scrape_config, http_config, and the configurations of
 * its discoveries) with the profiling_config of Parca and Grafana's agents. What is not understood is refused.
 */
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "profile/labels.h"
#include "server/scrape/scrape_config_int.h"

#define JOB_ARENA_MAX	 (4 * MIB)
#define BODY_DEFAULT	 (64 * MIB)
#define INTERVAL_DEFAULT (15 * NS_PER_S)
#define TIMEOUT_DEFAULT	 (10 * NS_PER_S)
#define REFRESH_MIN	 NS_PER_S
#define TIME_MAX	 (365 * 86400 * NS_PER_S) /* of all settings, so that sums of times are times */

static const struct scrape_profile profile_defaults[] = {
	{.name = "process_cpu", .path = "/debug/pprof/profile", .delta = true},
	{.name = "memory", .path = "/debug/pprof/allocs", .cumulative = true},
	{.name = "mutex", .path = "/debug/pprof/mutex", .cumulative = true},
	{.name = "block", .path = "/debug/pprof/block", .cumulative = true},
	{.name = "goroutine", .path = "/debug/pprof/goroutine"},
	{.name = "fgprof", .path = "/debug/fgprof", .delta = true, .disabled = true},
	{.name = "godeltaprof_memory", .path = "/debug/pprof/delta_heap", .disabled = true},
	{.name = "godeltaprof_mutex", .path = "/debug/pprof/delta_mutex", .disabled = true},
	{.name = "godeltaprof_block", .path = "/debug/pprof/delta_block", .disabled = true},
};
#define PROFILE_DEFAULTS (sizeof(profile_defaults) / sizeof(*profile_defaults))

/* ---- jobs ---- */

struct scrape_job *scrape_job_use(struct scrape_job *job)
{
	atomic_fetch_add_explicit(&job->references, 1, memory_order_relaxed);
	return job;
}

void scrape_job_release(struct scrape_job *job)
{
	if (!job || atomic_fetch_sub_explicit(&job->references, 1, memory_order_acq_rel) > 1)
		return;
	relabel_free(job->relabel);
	relabel_free(job->sample_relabel);
	pthread_mutex_destroy(&job->sample_relabel_lock);
	scrape_http_release(&job->http);
	for (size_t i = 0; i < job->discovery_count; i++)
		scrape_http_release(&job->discoveries[i]->http);
	arena_release(&job->arena);
	mem_free(job);
}

struct scrape_config *scrape_config_free(struct scrape_config *config)
{
	for (size_t i = 0; config && i < config->count; i++)
		scrape_job_release(config->jobs[i]);
	return config ? mem_free(config) : NULL;
}

/* ---- profiling_config ---- */

struct profile_settings {
	struct scrape_profile *profile;
	bool enabled, delta, cumulative;
	const char *path;
	unsigned seconds;
};

static int read_profile(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_FIELD(struct profile_settings, "enabled", FLAG, enabled),
						   YAML_FIELD(struct profile_settings, "path", TEXT, path),
						   YAML_FIELD(struct profile_settings, "delta", FLAG, delta),
						   YAML_FIELD(struct profile_settings, "cumulative", FLAG, cumulative),
						   YAML_FIELD(struct profile_settings, "seconds", COUNT, seconds),
						   {0}};
	struct scrape_job *job = object;
	struct scrape_profile *profile = NULL;
	for (size_t i = 0; i < job->profile_count; i++)
		if (strcmp(job->profiles[i].name, name) == 0)
			profile = &job->profiles[i];
	if (!profile && (job->profile_count == SCRAPE_PROFILES_MAX || !label_name_is_valid(name) || strlen(name) >= 48))
		return yaml_fault(reader, node, name, "is not a profile name, or exceeds the limit of profiles");
	if (!profile) {
		profile = &job->profiles[job->profile_count++];
		*profile = (struct scrape_profile){.name = name};
	}
	struct profile_settings settings = {.enabled = true, .delta = profile->delta, .cumulative = profile->cumulative};
	int r = yaml_read_fields(reader, node, fields, &settings);
	if (r < 0)
		return r;
	/* Who says that an endpoint measures by itself has said that it does not count from the start. */
	if (settings.delta && profile->cumulative)
		settings.cumulative = false;
	if (settings.delta && settings.cumulative)
		return yaml_fault(reader, node, name, "cannot have both delta and cumulative");
	profile->disabled = !settings.enabled;
	profile->delta = settings.delta;
	profile->cumulative = settings.cumulative;
	profile->duration_ns = settings.seconds < 3600 ? settings.seconds * NS_PER_S : 3600 * NS_PER_S;
	if (settings.path)
		profile->path = settings.path;
	if (!profile->path || *profile->path != '/')
		return yaml_fault(reader, node, name, "needs a path that begins with '/'");
	return 0;
}

static int read_profiling(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_FIELD(struct scrape_job, "path_prefix", TEXT, path_prefix),
						   {"pprof_config", YAML_FIELD_NAMES, .read_name = read_profile},
						   {0}};
	return yaml_read_fields(reader, node, fields, object);
}

/* ---- a job ---- */

static int read_param(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object)
{
	struct scrape_job *job = object;
	if (job->param_count == SCRAPE_PARAMS_MAX)
		return yaml_fault(reader, node, "params", "has too many entries");
	struct scrape_param *param = &job->params[job->param_count++];
	param->name = name;
	return yaml_read_texts(reader, node, name, 16, &param->values, &param->count);
}

/* 0 = no limit, as in Prometheus. */
static int read_sample_limit(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct scrape_job *job = object;
	const char *text = yaml_scalar(node);
	uint64_t limit;
	if (!text || text_parse_u64(text, &limit, NULL) < 0 || limit > UINT32_MAX)
		return yaml_fault(reader, node, "sample_limit", "must be a whole number; 0 = no limit");
	job->samples_max = (unsigned)limit;
	return 0;
}

static const struct yaml_field job_fields[] = {
	YAML_FIELD(struct scrape_job, "job_name", TEXT, name),
	YAML_FIELD(struct scrape_job, "scrape_interval", DURATION, interval_ns),
	YAML_FIELD(struct scrape_job, "scrape_timeout", DURATION, timeout_ns),
	YAML_FIELD(struct scrape_job, "scheme", TEXT, scheme),
	YAML_FIELD(struct scrape_job, "tenant", TEXT, tenant),
	YAML_FIELD(struct scrape_job, "body_size_limit", SIZE, body_max),
	YAML_FIELD(struct scrape_job, "target_limit", COUNT, targets_max),
	{"params", YAML_FIELD_NAMES, .read_name = read_param},
	{"static_configs", YAML_FIELD_LIST, .read = scrape_read_static},
	{"file_sd_configs", YAML_FIELD_LIST, .read = scrape_read_file},
	{"http_sd_configs", YAML_FIELD_LIST, .read = scrape_read_http},
	{"dns_sd_configs", YAML_FIELD_LIST, .read = scrape_read_dns},
	{"kubernetes_sd_configs", YAML_FIELD_LIST, .read = scrape_read_kubernetes},
	{"consul_sd_configs", YAML_FIELD_LIST, .read = scrape_read_consul},
	{"docker_sd_configs", YAML_FIELD_LIST, .read = scrape_read_docker},
	{"dockerswarm_sd_configs", YAML_FIELD_LIST, .read = scrape_read_swarm},
	{"nomad_sd_configs", YAML_FIELD_LIST, .read = scrape_read_nomad},
	{"ec2_sd_configs", YAML_FIELD_LIST, .read = scrape_read_ec2},
	{"gce_sd_configs", YAML_FIELD_LIST, .read = scrape_read_gce},
	{"azure_sd_configs", YAML_FIELD_LIST, .read = scrape_read_azure},
	YAML_FIELD(struct scrape_job, "relabel_configs", LIST, relabel, relabel_read_rule),
	YAML_FIELD(struct scrape_job, "metric_relabel_configs", LIST, sample_relabel, relabel_read_rule),
	YAML_FIELD(struct scrape_job, "honor_labels", FLAG, honor_labels),
	YAML_CUSTOM("sample_limit", read_sample_limit),
	YAML_CUSTOM("profiling_config", read_profiling),
	SCRAPE_HTTP_FIELDS(struct scrape_job),
	{0}};

static int check_job(struct yaml_reader *reader, const yaml_node_t *node, struct scrape_job *job)
{
	if (!job->name)
		return yaml_fault(reader, node, "scrape_configs", "needs a job_name");
	if (strcmp(job->scheme, "http") && strcmp(job->scheme, "https"))
		return yaml_fault(reader, node, job->scheme, "must be http or https");
	if (job->interval_ns < NS_PER_S)
		return yaml_fault(reader, node, "scrape_interval", "must be at least 1s");
	if (job->interval_ns > TIME_MAX || job->timeout_ns > TIME_MAX)
		return yaml_fault(reader, node, job->interval_ns > TIME_MAX ? "scrape_interval" : "scrape_timeout",
				  "must be at most 365d");
	for (size_t i = 0; i < job->discovery_count; i++) {
		struct discovery_config *discovery = job->discoveries[i];
		if (discovery->refresh_ns && discovery->refresh_ns < REFRESH_MIN)
			return yaml_fault(reader, node, "refresh_interval", "must be at least 1s");
		if (discovery->refresh_ns > TIME_MAX)
			return yaml_fault(reader, node, "refresh_interval", "must be at most 365d");
		int r = scrape_check_http(reader, node, &discovery->http);
		if (r < 0)
			return r;
	}
	/* What a profile must be measured for has to fit between two scrapes. */
	for (size_t i = 0; i < job->profile_count; i++)
		if (job->profiles[i].delta && job->profiles[i].duration_ns > job->interval_ns)
			return yaml_fault(reader, node, job->profiles[i].name, "takes longer than the scrape_interval");
	return scrape_check_http(reader, node, &job->http);
}

static int read_job(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct scrape_config *config = object;
	if (config->count == SCRAPE_JOBS_MAX)
		return yaml_fault(reader, node, "scrape_configs", "has more than 1000 jobs");
	struct scrape_job *job = mem_zalloc(sizeof(*job));
	if (!job)
		return error_nomem(reader->err);
	config->jobs[config->count++] = job;
	arena_init(&job->arena, JOB_ARENA_MAX);
	job->references = 1;
	pthread_mutex_init(&job->sample_relabel_lock, NULL);
	job->interval_ns = INTERVAL_DEFAULT;
	job->scheme = "http";
	job->path_prefix = "";
	job->body_max = BODY_DEFAULT;
	memcpy(job->profiles, profile_defaults, sizeof(profile_defaults));
	job->profile_count = PROFILE_DEFAULTS;
	struct yaml_reader own = *reader;
	own.arena = &job->arena;
	int r = yaml_hash(&own, node, &job->hash);
	if (r == 0)
		r = yaml_read_fields(&own, node, job_fields, job);
	if (job->timeout_ns == 0)
		job->timeout_ns = job->interval_ns < TIMEOUT_DEFAULT ? job->interval_ns : TIMEOUT_DEFAULT;
	if (r == 0)
		r = check_job(&own, node, job);
	for (size_t i = 0; r == 0 && i + 1 < config->count; i++)
		if (strcmp(config->jobs[i]->name, job->name) == 0)
			return yaml_fault(reader, node, job->name, "is already the name of another job");
	return r;
}

int scrape_config_read(yaml_document_t *document, const yaml_node_t *node, const char *file, struct scrape_config **ret,
		       struct error *err)
{
	struct yaml_reader reader = {document, file, NULL, err, .manual = "docs/scraping.md"};
	if (!*ret)
		*ret = mem_zalloc(sizeof(**ret));
	return *ret ? yaml_read_list(&reader, node, "scrape_configs", read_job, *ret) : error_nomem(err);
}
