/* SPDX-License-Identifier: Apache-2.0 */
/* Pyroscope's flame graphs of any profile: the nodes of a level do not overlap, and what is shown adds up to the total. */
#include "format/format.h"
#include "must.h"
#include "render/flamebearer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Values wrap, as they do when they are added up. */
static void check(const struct flamebearer *flamebearer, unsigned side, int64_t total)
{
	uint64_t selves = 0;
	size_t at = 0;
	must(flamebearer->level_count > 0 && flamebearer->name_count > 0);
	for (size_t level = 0; level < flamebearer->level_count; level++)
		for (; at < flamebearer->level_ends[level]; at += flamebearer->node_values) {
			int64_t name = flamebearer->values[at + flamebearer->node_values - 1];
			must(name >= 0 && (size_t)name < flamebearer->name_count);
			selves += (uint64_t)flamebearer->values[at + 3 * (size_t)side + 2];
		}
	must(selves == (uint64_t)total);
}

static void check_flame(const struct profile *profile, size_t type, size_t nodes_max)
{
	struct flame *flame = NULL;
	struct flamebearer flamebearer;
	struct diff *diff = NULL;
	struct buffer out;
	buffer_init(&out, 1u << 28);
	if (flame_build_by_name(profile, type, nodes_max, &flame, NULL) < 0)
		return;
	must(flamebearer_of_flame(flame, &flamebearer, NULL) == 0);
	check(&flamebearer, 0, flame->total);
	must(flamebearer_write_protobuf(&flamebearer, &out) == 0);
	must(flamebearer_write_tree(flame, &out, NULL) == 0);
	flamebearer_release(&flamebearer);
	must(diff_build(flame, flame, &diff, NULL) == 0);
	must(flamebearer_of_diff(diff, 5, &flamebearer, NULL) == 0);
	check(&flamebearer, 0, flame->total);
	check(&flamebearer, 1, flame->total);
	flamebearer_release(&flamebearer);
	diff_free(diff);
	flame_free(flame);
	buffer_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *profile = NULL;
	if (pprof_decode((struct bytes){data, size}, NULL, &profile, NULL) < 0)
		return 0;
	for (size_t type = 0; type < profile->sample_type_count && type < 2; type++) {
		check_flame(profile, type, 0);
		check_flame(profile, type, 3);
	}
	profile_free(profile);
	return 0;
}
