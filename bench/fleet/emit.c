/* SPDX-License-Identifier: Apache-2.0 */
/* Flushes as profiles. What a service's version has in the profile already is found by the workload's ids, so that a sample
 * whose stack is known costs one look into an array; generations make all of that stale at once when a new profile begins. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/fleet/fleet.h"

struct memo {
	uint32_t generation, id;
};
struct fleet_binding {
	uint32_t version;
	bool is_bound;
	struct memo *mappings, *locations, *stacks;
};

static void release_binding(struct fleet_binding *binding)
{
	mem_free(binding->mappings);
	mem_free(binding->locations);
	mem_free(binding->stacks);
	*binding = (struct fleet_binding){0};
}

int fleet_emitter_new(const struct fleet *fleet, bool is_window, bool is_memory, struct fleet_emitter **ret, struct error *err)
{
	struct fleet_emitter *emitter = mem_zalloc(sizeof(*emitter));
	if (emitter)
		emitter->bindings = mem_zalloc_array(fleet->options.services, 2 * sizeof(*emitter->bindings));
	if (!emitter || !emitter->bindings) {
		mem_free(emitter);
		return error_nomem(err);
	}
	emitter->fleet = fleet;
	emitter->is_window = is_window;
	emitter->is_memory = is_memory;
	*ret = emitter;
	return 0;
}

void fleet_emitter_free(struct fleet_emitter *emitter)
{
	if (!emitter)
		return;
	for (size_t i = 0; i < 2 * (size_t)emitter->fleet->options.services; i++)
		release_binding(&emitter->bindings[i]);
	mem_free(emitter->bindings);
	map64_release(&emitter->label_sets);
	profile_free(emitter->profile);
	mem_free(emitter);
}

/* The binding of the pod's version; what an older version left in its place is forgotten. */
static int bind(struct fleet_emitter *emitter, const struct fleet_pod *pod, struct fleet_binding **ret, struct error *err)
{
	struct fleet_binding *binding = &emitter->bindings[2 * pod->service + pod->version % 2];
	*ret = binding;
	if (binding->is_bound && binding->version == pod->version)
		return 0;
	const struct profile *from = emitter->fleet->services[pod->service].workload->profile;
	release_binding(binding);
	binding->mappings = mem_zalloc_array(from->mapping_count, sizeof(struct memo));
	binding->locations = mem_zalloc_array(from->location_count, sizeof(struct memo));
	binding->stacks = mem_zalloc_array(from->stack_count, sizeof(struct memo));
	binding->version = pod->version;
	binding->is_bound = true;
	return binding->mappings && binding->locations && binding->stacks ? 0 : error_nomem(err);
}

/* One copy of a service's stacks under way. */
struct copying {
	struct fleet_emitter *emitter;
	struct fleet_binding *binding;
	const struct fleet_service *service;
	uint32_t service_index;
	const struct profile *from;
	struct profile *to;
	struct error *err;
};

static int add_text(struct copying *copying, const char *text, uint32_t *ret)
{
	return profile_add_cstring(copying->to, text, ret, copying->err);
}

static int copy_text(struct copying *copying, uint32_t id, uint32_t *ret)
{
	struct bytes text = profile_string_bytes(copying->from, id);
	return profile_add_string(copying->to, text.data, text.len, ret, copying->err);
}

/* The app's binary is the service's own, with the build-id of its version; libraries are the distribution's. */
static int copy_mapping(struct copying *copying, uint32_t id, uint32_t *ret)
{
	struct memo *memo = &copying->binding->mappings[id];
	const struct fleet_service *service = copying->service;
	if (id == 0 || memo->generation == copying->emitter->generation) {
		*ret = id ? memo->id : 0;
		return 0;
	}
	struct profile_mapping mapping = copying->from->mappings[id];
	bool is_app = service->workload->is_app[id];
	char text[96];
	snprintf(text, sizeof(text), "/opt/%s/bin/%s", service->name, service->name);
	int r = is_app ? add_text(copying, text, &mapping.file_name)
		       : copy_text(copying, mapping.file_name, &mapping.file_name);
	uint64_t hash = fleet_hash(copying->emitter->fleet->options.seed + copying->service_index, copying->binding->version);
	snprintf(text, sizeof(text), "%016" PRIx64 "%016" PRIx64 "%08x", hash, fleet_hash(hash, 1), copying->service_index);
	if (r == 0 && !service->is_native)
		mapping.build_id = 0;
	else if (r == 0)
		r = is_app ? add_text(copying, text, &mapping.build_id)
			   : copy_text(copying, mapping.build_id, &mapping.build_id);
	if (r == 0)
		r = profile_add_mapping(copying->to, &mapping, ret, copying->err);
	*memo = (struct memo){copying->emitter->generation, *ret};
	return r;
}

/* A name as the service's own code would have it. The file tells binaries apart: a stack's identity is in the names of its
 * functions and files, so equal names in two libraries would be one stack of which nobody can say in which binary it was. */
static int copy_function(struct copying *copying, const struct profile_function *function, const char *library, bool is_app,
			 uint32_t *ret)
{
	char text[512];
	const char *name = profile_string(copying->from, function->name),
		   *file = profile_string(copying->from, function->file_name);
	const char *service = copying->service->name;
	struct profile_function copy = {.start_line = function->start_line};
	if (is_app)
		snprintf(text, sizeof(text), "%.*s.%s", (int)strcspn(service, "-"), service, name);
	else
		snprintf(text, sizeof(text), "%s", name);
	int r = add_text(copying, text, &copy.name);
	copy.system_name = copy.name;
	const char *slash = strrchr(file, '/');
	if (slash)
		snprintf(text, sizeof(text), "/%s%s", is_app ? service : "usr/src", slash);
	else
		snprintf(text, sizeof(text), "%s%s", is_app ? "/" : "", is_app ? service : *file ? file : library);
	if (r == 0)
		r = add_text(copying, text, &copy.file_name);
	return r == 0 ? profile_add_function(copying->to, &copy, ret, copying->err) : r;
}

/* An address without a name gets that of the 256 bytes that it is in: SDKs have names for everything. */
static int invent_function(struct copying *copying, uint32_t location, const char *library, bool is_app, uint32_t *ret)
{
	char text[128];
	struct profile_function function = {0};
	uint64_t offset = profile_location_file_offset(copying->from, location);
	snprintf(text, sizeof(text), "%s.part_%" PRIx64, is_app ? copying->service->name : "library", offset >> 8);
	int r = add_text(copying, text, &function.name);
	function.system_name = function.name;
	if (r == 0)
		r = add_text(copying, library, &function.file_name);
	return r == 0 ? profile_add_function(copying->to, &function, ret, copying->err) : r;
}

#define LINES_MAX 64

static int copy_lines(struct copying *copying, uint32_t id, bool is_app, struct profile_line *lines, size_t *ret_count)
{
	const struct profile_location *location = &copying->from->locations[id];
	size_t count = location->line_count < LINES_MAX ? location->line_count : LINES_MAX;
	const char *library = profile_string(copying->from, copying->from->mappings[location->mapping].file_name);
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++) {
		lines[i] = copying->from->lines[location->line_first + i];
		r = copy_function(copying, &copying->from->functions[lines[i].function], library, is_app, &lines[i].function);
	}
	if (r == 0 && count == 0) {
		lines[count++] = (struct profile_line){0};
		r = invent_function(copying, id, library, is_app, &lines[0].function);
	}
	*ret_count = count;
	return r;
}

static int copy_location(struct copying *copying, uint32_t id, uint32_t *ret)
{
	struct memo *memo = &copying->binding->locations[id];
	if (memo->generation == copying->emitter->generation) {
		*ret = memo->id;
		return 0;
	}
	struct profile_location location = copying->from->locations[id];
	bool is_app = copying->service->workload->is_app[location.mapping];
	bool has_names = location.frame_type >= PROFILE_FRAME_KERNEL; /* the agent names these: kernel, JIT, interpreted */
	struct profile_line lines[LINES_MAX];
	size_t line_count = 0;
	int r = 0;
	if (!copying->service->is_native || has_names || location.mapping == 0)
		r = copy_lines(copying, id, is_app, lines, &line_count);
	if (r == 0)
		r = copy_mapping(copying, location.mapping, &location.mapping);
	if (r == 0 && !copying->service->is_native) /* an SDK's frames are the same in each build */
		location.address = copying->to->mappings[location.mapping].start;
	if (r == 0)
		r = profile_add_location(copying->to, &location, lines, line_count, ret, copying->err);
	*memo = (struct memo){copying->emitter->generation, *ret};
	return r;
}

static int copy_stack(struct copying *copying, uint32_t id, uint32_t *ret)
{
	uint32_t chain[512];
	size_t depth = 0;
	*ret = 0;
	for (; id && depth < sizeof(chain) / sizeof(*chain); id = copying->from->stacks[id].parent) {
		const struct memo *memo = &copying->binding->stacks[id];
		if (memo->generation == copying->emitter->generation) {
			*ret = memo->id;
			break;
		}
		chain[depth++] = id;
	}
	while (depth > 0) {
		uint32_t location, at = chain[--depth];
		int r = copy_location(copying, copying->from->stacks[at].location, &location);
		if (r == 0)
			r = profile_add_stack(copying->to, *ret, location, ret, copying->err);
		if (r < 0)
			return r;
		copying->binding->stacks[at] = (struct memo){copying->emitter->generation, *ret};
	}
	return 0;
}

/* ---- labels ---- */

struct label_list {
	struct profile *to;
	struct profile_label items[16];
	size_t count;
	int result;
	struct error *err;
};

static void add_label(struct label_list *list, const char *key, const char *value)
{
	struct profile_label *label = &list->items[list->count++];
	*label = (struct profile_label){0};
	if (list->result == 0)
		list->result = profile_add_cstring(list->to, key, &label->key, list->err);
	if (list->result == 0)
		list->result = profile_add_cstring(list->to, value, &label->value, list->err);
}

static const char *const regions[] = {"eu-west-1", "us-east-1", "ap-south-1"};

void fleet_host_name(unsigned host, char *ret, size_t size)
{
	snprintf(ret, size, "host-%04u.%s.example.org", host, regions[host % 3]);
}

static void add_host_labels(struct label_list *list, const struct fleet *fleet, unsigned host)
{
	char text[64];
	fleet_host_name(host, text, sizeof(text));
	add_label(list, "host.name", text);
	add_label(list, "region", regions[host % 3]);
	add_label(list, "env", host % 10 == 9 ? "staging" : "production");
	add_label(list, "os.version", fleet->hosts[host].hash % 4 ? "6.1.0-18-amd64" : "6.1.0-21-amd64");
}

static void add_pod_labels(struct label_list *list, const struct fleet *fleet, const struct fleet_pod *pod)
{
	const struct fleet_service *service = &fleet->services[pod->service];
	static const char *const namespaces[] = {"shop", "payments", "platform", "data"};
	char text[96];
	uint64_t replica_set = fleet_hash(fleet->options.seed + pod->service, pod->version);
	add_label(list, "service.name", service->name);
	snprintf(text, sizeof(text), "%s-%09" PRIx64 "-%05" PRIx64, service->name, replica_set >> 28, pod->id >> 40 & 0xfffff);
	add_label(list, "k8s.pod.name", text);
	add_label(list, "k8s.namespace.name", namespaces[pod->service % 4]);
	snprintf(text, sizeof(text), "1.%u.%u", pod->version / 8, pod->version % 8);
	add_label(list, "service.version", text);
}

static void add_thread_labels(struct label_list *list, const struct fleet *fleet, const struct fleet_pod *pod, unsigned thread)
{
	static const char *const threads[FLEET_THREADS_MAX] = {"worker", "io", "gc", "main"};
	char text[32];
	add_label(list, "process.executable.name", fleet->services[pod->service].name);
	snprintf(text, sizeof(text), "%u", (unsigned)(pod->id % 4190000) + 1000);
	add_label(list, "process.pid", text);
	add_label(list, "thread.name", threads[thread]);
}

static int label_set_of(struct fleet_emitter *emitter, const struct fleet_flush *flush, const struct fleet_pod *pod,
			unsigned thread, uint32_t *ret, struct error *err)
{
	uint64_t key = fleet_hash(pod->id, thread), found;
	if (map64_get(&emitter->label_sets, key, &found)) {
		*ret = (uint32_t)found;
		return 0;
	}
	struct label_list list = {.to = emitter->profile, .err = err};
	if (emitter->is_window)
		add_host_labels(&list, emitter->fleet, flush->host);
	add_pod_labels(&list, emitter->fleet, pod);
	if (!emitter->is_memory)
		add_thread_labels(&list, emitter->fleet, pod, thread);
	int r = list.result;
	if (r == 0)
		r = profile_add_label_set(emitter->profile, list.items, list.count, ret, err);
	if (r == 0 && map64_put(&emitter->label_sets, key, *ret) < 0)
		r = error_nomem(err);
	return r;
}

int fleet_emit_labels(struct fleet_emitter *emitter, unsigned host, const struct fleet_labels *labels, size_t count,
		      uint32_t *ret, struct error *err)
{
	struct label_list list = {.to = emitter->profile, .err = err};
	if (emitter->is_window)
		add_host_labels(&list, emitter->fleet, host);
	for (size_t i = 0; i < count; i++)
		add_label(&list, labels[i].name, labels[i].value);
	return list.result < 0 ? list.result : profile_add_label_set(emitter->profile, list.items, list.count, ret, err);
}

/* ---- profiles ---- */

int fleet_emit_begin(struct fleet_emitter *emitter, const struct fleet_flush *flush, struct error *err)
{
	struct profile *profile;
	uint32_t type, unit, period;
	int r = profile_new(&profile, err);
	if (r < 0)
		return r;
	profile_free(emitter->profile);
	emitter->profile = profile;
	emitter->generation++;
	map64_clear(&emitter->label_sets);
	bool is_memory = emitter->is_memory;
	r = profile_add_cstring(profile, is_memory ? "inuse_space" : "cpu", &type, err);
	if (r == 0)
		r = profile_add_cstring(profile, is_memory ? "bytes" : "nanoseconds", &unit, err);
	if (r == 0)
		r = profile_add_cstring(profile, is_memory ? "space" : "cpu", &period, err);
	if (r == 0)
		r = profile_add_sample_type(profile, type, unit, err);
	profile->period_type = (struct profile_value_type){period, unit};
	profile->period = is_memory ? 524288 : (int64_t)(1e9 / emitter->fleet->options.frequency);
	profile->duration_ns = is_memory ? 0 : FLEET_FLUSH_NS;
	profile->time_ns = flush->time_ns;
	if (r < 0 || emitter->is_window)
		return r;
	struct label_list list = {.to = profile, .err = err};
	add_host_labels(&list, emitter->fleet, flush->host);
	return list.result < 0 ? list.result
			       : profile_add_label_set(profile, list.items, list.count, &profile->resource_labels, err);
}

int fleet_emit(struct fleet_emitter *emitter, const struct fleet_flush *flush, struct error *err)
{
	for (size_t i = 0; i < flush->count; i++) {
		const struct fleet_sample *sample = &flush->samples[i];
		const struct fleet_pod *pod = &flush->pods[sample->pod];
		const struct fleet_service *service = &emitter->fleet->services[pod->service];
		struct copying copying = {.emitter = emitter,
					  .service = service,
					  .service_index = pod->service,
					  .from = service->workload->profile,
					  .to = emitter->profile,
					  .err = err};
		struct profile_sample copy = {.time_ns = emitter->is_window ? flush->time_ns : 0};
		unsigned thread = emitter->is_memory ? 0 : fleet_thread_of(service, sample->rank);
		int r = bind(emitter, pod, &copying.binding, err);
		if (r == 0)
			r = copy_stack(&copying, service->stacks[sample->rank], &copy.stack);
		if (r == 0)
			r = label_set_of(emitter, flush, pod, thread, &copy.labels, err);
		int64_t value = emitter->is_memory ? sample->count : sample->count * emitter->profile->period;
		if (r == 0)
			r = profile_add_sample(emitter->profile, &copy, &value, err);
		if (r < 0)
			return r;
	}
	return 0;
}
