// SPDX-License-Identifier: Apache-2.0
#include "agent/process/sample_labels.h"

#include <stdio.h>
#include <string.h>

#include "agent/process/context.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"

#define ENTRIES_MAX	   65536u
#define ENTRIES_QUIET	   1024u /* kept between profiles */
#define MAPPINGS_LOOKED_AT 64u

void sample_labels_release(struct sample_labels *labels)
{
	labels->entries = mem_free(labels->entries);
	labels->count = labels->capacity = 0;
	index32_release(&labels->index);
}

void sample_labels_clear(struct sample_labels *labels)
{
	if (labels->names)
		thread_names_clear(labels->names);
	if (labels->capacity > ENTRIES_QUIET) {
		sample_labels_release(labels);
		return;
	}
	labels->count = 0;
	index32_clear(&labels->index);
}

/* ---- putting a set together ---- */

/* A set and the memory of what is made for it. */
struct draft {
	struct relabel_set set;
	struct context context;
	char pid[16], parent_pid[16], tid[16], thread[THREAD_NAME_BYTES];
};

static void put_resource(const struct sample_labels *labels, struct relabel_set *set)
{
	relabel_set_put(set, "host.name", labels->host);
	relabel_set_put(set, "os.version", labels->release);
	for (size_t i = 0; labels->given && i < labels->given->count; i++)
		relabel_set_put(set, labels->given->items[i].name, labels->given->items[i].value);
}

/* A mapping of the executable: the first few by address, where the kernel and linkers put it. */
static const struct process_mapping *mapping_of_executable(const struct process *process)
{
	for (size_t i = 0; process->maps && i < process->maps->count && i < MAPPINGS_LOOKED_AT; i++) {
		if (process->maps->items[i].binary == process->executable)
			return &process->maps->items[i];
	}
	return NULL;
}

/* "" for those that are known by their build-id. */
static const char *hash_of_executable(const struct binaries *binaries, const struct binary *executable,
				      const struct process_mapping *mapping)
{
	const struct contents_file *content = mapping ? &binary_file_get(binaries, mapping->file)->content : NULL;
	if (content && content->key[0] && (content->is_foreign || !content->build_id))
		return content->file_hash;
	return executable->file_hash ? executable->file_hash : "";
}

static void put_executable(struct draft *draft, struct binaries *binaries, const struct process *process)
{
	struct relabel_set *set = &draft->set;

	const struct process_mapping *mapping = mapping_of_executable(process);
	binary_describe(binaries, process->executable, process->pid, mapping);
	const struct binary *executable = binary_get(binaries, process->executable);
	relabel_set_put(set, "process.executable.name", binary_name(executable));
	relabel_set_put(set, "process.executable.path", executable->path);
	relabel_set_put(set, "process.executable.build_id.gnu", executable->build_id ? executable->build_id : "");
	relabel_set_put(set, "process.executable.build_id.htlhash", hash_of_executable(binaries, executable, mapping));
	relabel_set_put(set, "process.executable.build_id.go", executable->go_build_id ? executable->go_build_id : "");
	relabel_set_put(set, "process.executable.compiler", executable->compiler ? executable->compiler : "");
}

static void put_process(struct draft *draft, struct binaries *binaries, const struct process *process)
{
	struct relabel_set *set = &draft->set;

	snprintf(draft->pid, sizeof(draft->pid), "%d", (int)process->pid);
	relabel_set_put(set, "process.pid", draft->pid);
	snprintf(draft->parent_pid, sizeof(draft->parent_pid), "%d", (int)process->parent);
	if (process->parent)
		relabel_set_put(set, "process.parent_pid", draft->parent_pid);
	if (process->executable)
		put_executable(draft, binaries, process);
	else
		relabel_set_put(set, "process.executable.name", process->comm);
	relabel_set_put(set, "process.comm", process->comm);
	relabel_set_put(set, "thread.name", draft->thread);
}

static void put_cgroup(struct draft *draft, const char *path)
{
	struct relabel_set *set = &draft->set;
	struct context *context = &draft->context;

	context_of_cgroup(path, context);
	relabel_set_put(set, "cgroup", path);
	relabel_set_put(set, "container.id", context->container_id);
	relabel_set_put(set, "container.name", context->container_name);
	relabel_set_put(set, "container.runtime.name", context->container_runtime);
	relabel_set_put(set, "k8s.pod.uid", context->pod_uid);
	relabel_set_put(set, "systemd.unit", context->unit);
	relabel_set_put(set, "systemd.slice", context->slice);
	relabel_set_put(set, "systemd.user_unit", context->user_unit);
	relabel_set_put(set, "systemd.user_slice", context->user_slice);
}

/* ---- into the profile ---- */

/* OpenTelemetry has these as numbers. */
static bool is_number(const struct relabel_label *label, int64_t *ret)
{
	bool is_pid = strcmp(label->name, "process.pid") == 0 || strcmp(label->name, "process.parent_pid") == 0 ||
		      strcmp(label->name, "thread.id") == 0;
	return is_pid && text_parse_i64(label->value, ret, NULL) == 0 && *ret != 0;
}

static int add_set(struct profile *profile, const struct relabel_set *set, uint32_t *ret_set, struct error *err)
{
	struct profile_label items[sizeof(set->items) / sizeof(*set->items)];
	int r = 0;

	for (size_t i = 0; i < set->count && r == 0; i++) {
		struct profile_label *label = &items[i];
		*label = (struct profile_label){0};
		r = profile_add_cstring(profile, set->items[i].name, &label->key, err);
		if (r == 0 && !is_number(&set->items[i], &label->number)) {
			label->number = 0;
			r = profile_add_cstring(profile, set->items[i].value, &label->value, err);
		}
	}
	return r < 0 ? r : profile_add_label_set(profile, items, set->count, ret_set, err);
}

int sample_labels_add_resource(struct sample_labels *labels, struct profile *profile, struct error *err)
{
	struct relabel_set set;
	size_t kept = 0;

	relabel_set_init(&set);
	put_resource(labels, &set);
	for (size_t i = 0; i < set.count; i++) {
		if (!labels->relabel || !relabel_touches(labels->relabel, set.items[i].name))
			set.items[kept++] = set.items[i];
	}
	set.count = kept;
	int r = add_set(profile, &set, &profile->resource_labels, err);
	relabel_set_release(&set);
	return r;
}

/* Rules see the resource too; what they cannot have touched stays there. */
static int relabel_draft(struct sample_labels *labels, struct draft *draft, struct error *err)
{
	struct relabel_set resource, *set = &draft->set;

	relabel_set_init(&resource);
	put_resource(labels, &resource);
	for (size_t i = 0; i < resource.count; i++) {
		if (!*relabel_set_get(set, resource.items[i].name))
			relabel_set_put(set, resource.items[i].name, resource.items[i].value);
	}
	int r = relabel_apply(labels->relabel, set, err);
	if (set->count > LIMIT_LABELS_PER_SERIES) /* a server would refuse the whole profile */
		set->count = LIMIT_LABELS_PER_SERIES;
	for (size_t i = 0; i < resource.count && r == 0; i++) {
		const struct relabel_label *label = &resource.items[i];
		if (!relabel_touches(labels->relabel, label->name) &&
		    strcmp(relabel_set_get(set, label->name), label->value) == 0)
			relabel_set_put(set, label->name, "");
	}
	relabel_set_release(&resource);
	return r;
}

static int make_set(struct sample_labels *labels, struct profile *profile, const struct process *process,
		    const struct abi_sample *sample, const char *name, uint32_t *ret_set, struct error *err)
{
	struct draft draft;

	relabel_set_init(&draft.set);
	if (name)
		snprintf(draft.thread, sizeof(draft.thread), "%s", name);
	else
		snprintf(draft.thread, sizeof(draft.thread), "%.*s", (int)sizeof(sample->comm), sample->comm);
	put_process(&draft, labels->binaries, process);
	if (labels->by_thread) {
		snprintf(draft.tid, sizeof(draft.tid), "%u", sample->tid);
		relabel_set_put(&draft.set, "thread.id", draft.tid);
	}
	put_cgroup(&draft, cgroups_path(labels->cgroups, sample->cgroup));
	int r = labels->relabel ? relabel_draft(labels, &draft, err) : 0;
	if (r > 0) {
		*ret_set = SAMPLE_LABELS_DROPPED;
		r = 0;
	} else if (r == 0) {
		r = add_set(profile, &draft.set, ret_set, err);
	}
	relabel_set_release(&draft.set);
	return r;
}

/* ---- once for each combination ---- */

static int add_entry(struct sample_labels *labels, const struct sample_labels_key *key, uint64_t hash, uint32_t set,
		     struct error *err)
{
	if (labels->count >= ENTRIES_MAX) { /* they are only a shortcut */
		labels->count = 0;
		index32_clear(&labels->index);
	}
	int r = array_reserve(&labels->entries, &labels->capacity, labels->count + 1, ENTRIES_MAX);
	if (r == 0)
		r = index32_add(&labels->index, hash, (uint32_t)labels->count);
	if (r < 0)
		return error_nomem(err);
	labels->entries[labels->count++] = (struct sample_labels_entry){*key, set};
	return 0;
}

static bool find_entry(const struct sample_labels *labels, const struct sample_labels_key *key, uint64_t hash,
		       uint32_t *ret_set)
{
	uint32_t id;

	for (size_t at = index32_first(&labels->index, hash); index32_at(&labels->index, hash, &at, &id); at++) {
		if (memcmp(&labels->entries[id].key, key, sizeof(*key)) == 0) {
			*ret_set = labels->entries[id].set;
			return true;
		}
	}
	return false;
}

int sample_labels_add(struct sample_labels *labels, struct profile *profile, const struct process *process,
		      const struct abi_sample *sample, uint32_t *ret_set, struct error *err)
{
	struct sample_labels_key key = {.cgroup = sample->cgroup, .process = process->id, .executable = process->executable};
	uint32_t set;
	const char *name = labels->names ? thread_names_find(labels->names, process, sample->tid) : NULL;

	if (labels->by_thread || name)
		key.tid = sample->tid;
	memcpy(key.comm, process->comm, strnlen(process->comm, sizeof(key.comm)));
	memcpy(key.thread, sample->comm, strnlen(sample->comm, sizeof(key.thread)));
	uint64_t hash = hash64(&key, sizeof(key));
	if (!find_entry(labels, &key, hash, &set)) {
		int r = make_set(labels, profile, process, sample, name, &set, err);
		if (r == 0)
			r = add_entry(labels, &key, hash, set, err);
		if (r < 0)
			return r;
	}
	if (set == SAMPLE_LABELS_DROPPED)
		return 1;
	*ret_set = set;
	return 0;
}
