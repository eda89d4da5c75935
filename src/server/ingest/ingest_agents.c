/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What profilers of whole machines leave to the server: Parca Agent (github.com/parca-dev/parca-agent) and OpenTelemetry's
 * profiler (github.com/open-telemetry/opentelemetry-ebpf-profiler).
 *
 * CPU time. They send samples, each a count of 1, and the period of CPU time that a sample stands for. That is stored as it
 * comes; and the CPU time under process_cpu, where all other profiles of CPU time are. OpenTelemetry's type has that name
 * already, and gets a second value. Parca Agent's is called "parca_agent", by which Parca's page asks for it, so the CPU time
 * is a profile of its own. A copy that is forwarded is of what came: the next server does the same.
 *
 * Services. They know processes and no services. OpenTelemetry's rule for who has none (semantic conventions, service.name) is
 * "unknown_service:" and the name of the executable. Parca Agent sends no executable, but for a process's own name, "comm".
 *
 * Paths. OpenTelemetry's profiler sends the last component of a file's path. That of the executable is a label, by which its
 * file is found on this host; those of libraries are looked for where libraries are (symbol/source.c).
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "profile/cpu_time.h"
#include "server/ingest/ingest_int.h"

#define CPU_NAME       "process_cpu"
#define SERVICE_PREFIX "unknown_service:"
#define SERVICE_MAX    256

/* ---- CPU time ---- */

int ingest_store_counted(struct ingest *ingest, struct profile *profile, const char *name, const struct labels *labels,
			 size_t index, struct error *err)
{
	bool has_name = name && *name && strcmp(name, CPU_NAME) != 0, counts = profile_counts_cpu_samples(profile);
	uint64_t rejected = ingest->rejected;
	int r = counts && !has_name ? profile_add_cpu_time(profile, err) : 0;
	if (!r)
		r = ingest_store_next(ingest, profile, name, labels, index, err);
	if (r < 0 || !counts || !has_name || ingest->rejected != rejected)
		return r;
	r = profile_convert_to_cpu_time(profile, err);
	return r < 0 ? r : ingest_store_derived(ingest, profile, CPU_NAME, labels, index, err);
}

/* ---- services ---- */

static const char *find_value(const struct profile *profile, uint32_t set, const char *const *keys, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *value = profile_label_value(profile, set, keys[i]);
		if (value && *value)
			return value;
	}
	return NULL;
}

static const char *find_service(const struct profile *profile, uint32_t set)
{
	static const char *const keys[] = {"service.name", "service_name"};
	return find_value(profile, set, keys, sizeof(keys) / sizeof(*keys));
}

static const char *find_executable(const struct profile *profile, uint32_t set)
{
	static const char *const keys[] = {"process.executable.name", "process_executable_name", "comm"};
	return find_value(profile, set, keys, sizeof(keys) / sizeof(*keys));
}

int ingest_place_executable(struct profile *profile, struct error *err)
{
	static const char *const keys[] = {"process.executable.path", "process_executable_path"};
	const char *path = find_value(profile, profile->resource_labels, keys, sizeof(keys) / sizeof(*keys));
	uint32_t id;
	if (!path || path[0] != '/' || !*text_base_name(path))
		return 0;
	int r = profile_add_cstring(profile, path, &id, err);
	for (size_t i = 0; i < profile->mapping_count && r == 0; i++)
		if (strcmp(profile_string(profile, profile->mappings[i].file_name),
			   text_base_name(profile_string(profile, id))) == 0)
			profile->mappings[i].file_name = id;
	return r;
}

/* The set with the service of that executable. */
static int add_service(struct profile *profile, uint32_t set, const char *executable, uint32_t *ret, struct error *err)
{
	char service[SERVICE_MAX];
	const struct profile_label_set *from = &profile->label_sets[set];
	size_t count = from->count;
	_cleanup_(mem_freep) struct profile_label *labels = mem_alloc_array(count + 1, sizeof(*labels));
	if (!labels)
		return error_nomem(err);
	if (count)
		memcpy(labels, &profile->labels[from->first], count * sizeof(*labels));
	labels[count] = (struct profile_label){0};
	snprintf(service, sizeof(service), SERVICE_PREFIX "%.200s", executable);
	int r = profile_add_cstring(profile, "service.name", &labels[count].key, err);
	if (r == 0)
		r = profile_add_cstring(profile, service, &labels[count].value, err);
	return r < 0 ? r : profile_add_label_set(profile, labels, count + 1, ret, err);
}

/* Of a profile whose samples are of many processes. */
static int name_services_of_sets(struct profile *profile, struct error *err)
{
	size_t count = profile->label_set_count;
	_cleanup_(mem_freep) uint32_t *sets = mem_alloc_array(count, sizeof(*sets));
	int r = sets ? 0 : error_nomem(err);
	for (uint32_t i = 0; i < count && r == 0; i++) {
		const char *executable = find_service(profile, i) ? NULL : find_executable(profile, i);
		sets[i] = i;
		if (executable && i)
			r = add_service(profile, i, executable, &sets[i], err);
	}
	for (size_t i = 0; i < profile->sample_count && r == 0; i++)
		profile->samples[i].labels = sets[profile->samples[i].labels];
	return r;
}

int ingest_name_services(struct profile *profile, struct error *err)
{
	if (find_service(profile, profile->resource_labels))
		return 0;
	const char *executable = find_executable(profile, profile->resource_labels);
	if (executable)
		return add_service(profile, profile->resource_labels, executable, &profile->resource_labels, err);
	return name_services_of_sets(profile, err);
}
