// SPDX-License-Identifier: Apache-2.0
#include "agent/sample_labels.h"

#include <string.h>

#include "agent/context.h"
#include "base/alloc.h"
#include "base/hash.h"

#define LABELS_MAX    24u
#define ENTRIES_MAX   65536u
#define ENTRIES_QUIET 1024u /* kept between windows */

void sample_labels_init(struct sample_labels *labels)
{
	*labels = (struct sample_labels){0};
	index32_init(&labels->index);
}

void sample_labels_release(struct sample_labels *labels)
{
	labels->entries = mem_free(labels->entries);
	labels->count = labels->capacity = 0;
	index32_release(&labels->index);
}

void sample_labels_clear(struct sample_labels *labels)
{
	if (labels->capacity > ENTRIES_QUIET) {
		sample_labels_release(labels);
		return;
	}
	labels->count = 0;
	index32_clear(&labels->index);
}

/* ---- one set ---- */

struct label_list {
	struct profile *profile;
	struct profile_label items[LABELS_MAX];
	size_t count;
};

/* A label without a value is left out. */
static int add_text(struct label_list *list, const char *name, const char *value, struct error *err)
{
	struct profile_label label = {0};

	if (!value || !value[0])
		return 0;
	int r = profile_add_cstring(list->profile, name, &label.key, err);
	if (r == 0)
		r = profile_add_cstring(list->profile, value, &label.value, err);
	if (r == 0)
		list->items[list->count++] = label;
	return r;
}

static int add_number(struct label_list *list, const char *name, int64_t number, struct error *err)
{
	struct profile_label label = {.number = number};

	int r = profile_add_cstring(list->profile, name, &label.key, err);
	if (r == 0)
		list->items[list->count++] = label;
	return r;
}

static int add_process(struct label_list *list, const struct binaries *binaries, const struct process *process,
		       const char *thread, struct error *err)
{
	const struct binary *executable = process->executable ? binary_get(binaries, process->executable) : NULL;

	int r = add_number(list, "process.pid", process->pid, err);
	if (r == 0)
		r = add_text(list, "process.executable.name", executable ? binary_name(executable) : process->comm, err);
	if (r == 0 && executable)
		r = add_text(list, "process.executable.path", executable->path, err);
	if (r == 0)
		r = add_text(list, "process.comm", process->comm, err);
	if (r == 0)
		r = add_text(list, "thread.name", thread, err);
	return r;
}

static int add_cgroup(struct label_list *list, const char *path, struct error *err)
{
	struct context context;

	context_of_cgroup(path, &context);
	const char *const labels[][2] = {
		{"cgroup", path},
		{"container.id", context.container_id},
		{"container.name", context.container_name},
		{"container.runtime.name", context.container_runtime},
		{"k8s.pod.uid", context.pod_uid},
		{"systemd.unit", context.unit},
		{"systemd.slice", context.slice},
		{"systemd.user_unit", context.user_unit},
		{"systemd.user_slice", context.user_slice},
	};
	int r = 0;
	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels) && r == 0; i++)
		r = add_text(list, labels[i][0], labels[i][1], err);
	return r;
}

/* ---- all of them ---- */

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

int sample_labels_add(struct sample_labels *labels, struct profile *profile, struct binaries *binaries, struct cgroups *cgroups,
		      const struct process *process, const struct abi_sample *sample, uint32_t *ret_set, struct error *err)
{
	struct sample_labels_key key = {.cgroup = sample->cgroup, .process = process->id, .executable = process->executable};
	struct label_list list = {.profile = profile};
	char thread[sizeof(sample->comm) + 1] = "";
	uint32_t id;

	memcpy(key.comm, process->comm, strnlen(process->comm, sizeof(key.comm)));
	memcpy(thread, sample->comm, sizeof(sample->comm));
	memcpy(key.thread, thread, strlen(thread));
	uint64_t hash = hash64(&key, sizeof(key));
	for (size_t at = index32_first(&labels->index, hash); index32_at(&labels->index, hash, &at, &id); at++) {
		if (memcmp(&labels->entries[id].key, &key, sizeof(key)) == 0) {
			*ret_set = labels->entries[id].set;
			return 0;
		}
	}
	int r = add_process(&list, binaries, process, thread, err);
	if (r == 0)
		r = add_cgroup(&list, cgroups_path(cgroups, sample->cgroup), err);
	if (r == 0)
		r = profile_add_label_set(profile, list.items, list.count, ret_set, err);
	return r < 0 ? r : add_entry(labels, &key, hash, *ret_set, err);
}
