/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads: the stacks of recorded profiles, in which the sharing, the depth and the number of different leaves are real. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/limits.h"
#include "bench/fleet/fleet.h"
#include "format/format.h"
#include "profile/merge.h"

#define SYNTHETIC_STACKS 6000

struct counted {
	int64_t value;
	uint32_t stack;
};

static int compare_counted(const void *a, const void *b)
{
	const struct counted *x = a, *y = b;
	return x->value != y->value ? (x->value < y->value ? 1 : -1) : (x->stack > y->stack) - (x->stack < y->stack);
}

static int rank_stacks(struct fleet_workload *workload, struct error *err)
{
	const struct profile *profile = workload->profile;
	struct counted *counted = mem_zalloc_array(profile->stack_count, sizeof(*counted));
	workload->stacks = mem_alloc_array(profile->stack_count, sizeof(*workload->stacks));
	if (!counted || !workload->stacks) {
		mem_free(counted);
		return error_nomem(err);
	}
	for (uint32_t i = 0; i < profile->stack_count; i++)
		counted[i].stack = i;
	for (size_t i = 0; i < profile->sample_count; i++)
		counted[profile->samples[i].stack].value += profile->values[i * profile->sample_type_count];
	counted[0].value = 0; /* the empty stack */
	qsort(counted, profile->stack_count, sizeof(*counted), compare_counted);
	while (workload->stack_count < profile->stack_count && counted[workload->stack_count].value > 0) {
		workload->stacks[workload->stack_count] = counted[workload->stack_count].stack;
		workload->stack_count++;
	}
	mem_free(counted);
	return 0;
}

static bool may_be_app(const char *path)
{
	const char *name = strrchr(path, '/');
	static const char *const shared[] = {"/libc.so", "/libc-", "/ld-linux", "/libm.so", "/libpthread", "/libz.so"};
	if (!name)
		return false;
	for (size_t i = 0; i < sizeof(shared) / sizeof(*shared); i++)
		if (!strncmp(name, shared[i], strlen(shared[i])))
			return false;
	return true;
}

/* The app is the file that most frames are in and that is not a library of the system. */
static int find_app(struct fleet_workload *workload, struct error *err)
{
	const struct profile *profile = workload->profile;
	uint64_t *frames = mem_zalloc_array(profile->mapping_count, sizeof(*frames));
	workload->is_app = mem_zalloc_array(profile->mapping_count, sizeof(*workload->is_app));
	if (!frames || !workload->is_app) {
		mem_free(frames);
		return error_nomem(err);
	}
	size_t best = 0;
	for (size_t i = 1; i < profile->stack_count; i++)
		frames[profile->locations[profile->stacks[i].location].mapping]++;
	for (size_t i = 1; i < profile->mapping_count; i++)
		if (may_be_app(profile_string(profile, profile->mappings[i].file_name)) && (!best || frames[i] > frames[best]))
			best = i;
	for (size_t i = 1; best && i < profile->mapping_count; i++)
		workload->is_app[i] = profile->mappings[i].file_name == profile->mappings[best].file_name;
	mem_free(frames);
	return 0;
}

static int add_workload(struct fleet_model *model, const char *name, struct profile *profile, struct error *err)
{
	struct fleet_workload *workload = &model->workloads[model->workload_count++];
	snprintf(workload->name, sizeof(workload->name), "%.*s", (int)strcspn(name, "."), name);
	workload->profile = profile;
	int r = rank_stacks(workload, err);
	return r < 0 ? r : find_app(workload, err);
}

/* Mappings of the many processes of a recording meet where they are of the same binary. */
static int load(struct fleet_model *model, const char *directory, const char *name, struct error *err)
{
	char path[PATH_MAX];
	struct buffer file = {0};
	_cleanup_(profile_freep) struct profile *read = NULL, *merged = NULL;
	int r = io_join_path(path, sizeof(path), directory, name);
	if (r == 0)
		r = io_read_file(path, GIB, &file, err);
	if (r == 0)
		r = format_decode(NULL, buffer_bytes(&file), &(struct format_options){.input_name = path}, &read, err);
	buffer_release(&file);
	if (r == 0)
		r = profile_new(&merged, err);
	if (r == 0)
		r = profile_merge(merged, read, true, err);
	if (r < 0)
		return r;
	struct profile *profile = merged;
	merged = NULL;
	return add_workload(model, name, profile, err);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int load_all(struct fleet_model *model, const char *directory, struct error *err)
{
	char *names[FLEET_WORKLOADS_MAX];
	size_t count = 0;
	DIR *dir = opendir(directory);
	if (!dir)
		return errno == ENOENT ? 0 : error_set_errno(err, -errno, "%s", directory);
	for (struct dirent *entry; count < FLEET_WORKLOADS_MAX && (entry = readdir(dir));) {
		size_t len = strlen(entry->d_name);
		if (len > 3 && !strcmp(entry->d_name + len - 3, ".pb"))
			names[count++] = mem_strdup(entry->d_name);
	}
	closedir(dir);
	qsort(names, count, sizeof(*names), compare_names);
	int r = 0;
	for (size_t i = 0; i < count; i++) {
		if (r == 0)
			r = load(model, directory, names[i], err);
		mem_free(names[i]);
	}
	return r;
}

/* ---- invented stacks ---- */

struct tree {
	struct profile *profile;
	uint32_t mappings[4];
	uint64_t seed;
};

static int add_mapping(struct tree *tree, unsigned i, struct error *err)
{
	char text[80];
	static const char *const files[] = {"/opt/app/bin/app", "/opt/app/lib/libengine.so", "/usr/lib/libc.so.6",
					    "/usr/lib/libz.so.1"};
	struct profile_mapping mapping = {.start = 0x400000 + i * 0x10000000ull, .limit = 0xc00000 + i * 0x10000000ull};
	int r = profile_add_cstring(tree->profile, files[i], &mapping.file_name, err);
	snprintf(text, sizeof(text), "%016llx00112233", (unsigned long long)fleet_hash(tree->seed, i));
	if (r == 0)
		r = profile_add_cstring(tree->profile, text, &mapping.build_id, err);
	return r == 0 ? profile_add_mapping(tree->profile, &mapping, &tree->mappings[i], err) : r;
}

static int add_frame(struct tree *tree, uint64_t path, uint32_t *stack, struct error *err)
{
	char text[64];
	uint32_t id, mapping = tree->mappings[path % 4];
	struct profile_location location = {.mapping = mapping, .frame_type = PROFILE_FRAME_NATIVE};
	struct profile_function function = {0};
	location.address = tree->profile->mappings[mapping].start + (path >> 8) % 3000 * 144;
	snprintf(text, sizeof(text), "work_%04x", (unsigned)((path >> 8) % 3000 / 6));
	int r = profile_add_cstring(tree->profile, text, &function.name, err);
	if (r == 0)
		r = profile_add_function(tree->profile, &function, &id, err);
	if (r == 0)
		r = profile_add_location(tree->profile, &location, &(struct profile_line){.function = id}, 1, &id, err);
	return r == 0 ? profile_add_stack(tree->profile, *stack, id, stack, err) : r;
}

/* Walks down one call tree. Where a branch leads is a hash of the path, and most walks keep to the trunk for a while, so stacks
 * share their callers. */
static int add_walk(struct tree *tree, uint64_t rank, struct error *err)
{
	uint64_t state = fleet_hash(tree->seed, rank), path = tree->seed;
	double u = fleet_unit(&state);
	size_t depth = 5 + (size_t)(40 * u * u);
	uint32_t stack = 0;
	for (size_t i = 0; i < depth; i++) {
		uint64_t branch = (uint64_t)fmin(pow(1 - fleet_unit(&state), -0.35), 1000) - 1; /* 0 six times out of seven */
		path = fleet_hash(path, branch);
		int r = add_frame(tree, path, &stack, err);
		if (r < 0)
			return r;
	}
	int64_t value = (int64_t)(SYNTHETIC_STACKS / (rank + 1)) + 1;
	return profile_add_sample(tree->profile, &(struct profile_sample){.stack = stack}, &value, err);
}

static int invent(struct fleet_model *model, unsigned number, struct error *err)
{
	struct tree tree = {.seed = fleet_hash(77, number)};
	uint32_t type, unit;
	char name[32];
	int r = profile_new(&tree.profile, err);
	if (r == 0)
		r = profile_add_cstring(tree.profile, "cpu", &type, err);
	if (r == 0)
		r = profile_add_cstring(tree.profile, "nanoseconds", &unit, err);
	if (r == 0)
		r = profile_add_sample_type(tree.profile, type, unit, err);
	for (unsigned i = 0; r == 0 && i < 4; i++)
		r = add_mapping(&tree, i, err);
	for (uint64_t i = 0; r == 0 && i < SYNTHETIC_STACKS; i++)
		r = add_walk(&tree, i, err);
	snprintf(name, sizeof(name), "invented%u", number);
	if (r == 0)
		return add_workload(model, name, tree.profile, err);
	profile_free(tree.profile);
	return r;
}

static void measure_depth(struct fleet_model *model)
{
	double depth = 0, count = 0;
	for (size_t i = 0; i < model->workload_count; i++) {
		const struct fleet_workload *workload = &model->workloads[i];
		for (size_t k = 0; k < workload->stack_count; k++, count++)
			depth += (double)profile_stack_depth(workload->profile, workload->stacks[k]);
	}
	model->mean_depth = count > 0 ? depth / count : 0;
}

int fleet_model_load(const char *directory, struct fleet_model *ret, struct error *err)
{
	*ret = (struct fleet_model){0};
	int r = directory ? load_all(ret, directory, err) : 0;
	ret->is_synthetic = ret->workload_count == 0;
	for (unsigned i = 0; r == 0 && ret->is_synthetic && i < 6; i++)
		r = invent(ret, i, err);
	measure_depth(ret);
	return r;
}

void fleet_model_release(struct fleet_model *model)
{
	for (size_t i = 0; i < model->workload_count; i++) {
		profile_free(model->workloads[i].profile);
		mem_free(model->workloads[i].stacks);
		mem_free(model->workloads[i].is_app);
	}
	model->workload_count = 0;
}
