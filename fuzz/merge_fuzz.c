/* SPDX-License-Identifier: Apache-2.0 */
/* Files of Firefox Profiler as `wick merge` takes them: named, aligned, merged with themselves, aligned again; whatever times,
 * flows and clocks they claim. */
#include "base/limits.h"
#include "format/format_int.h"
#include "must.h"
#include "profile/align.h"
#include "profile/hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_times(const struct profile *profile)
{
	const struct profile_markers *markers = profile->markers;
	for (size_t i = 0; i < profile_marker_count(profile); i++)
		must(markers->markers[i].phase != PROFILE_MARKER_INTERVAL ||
		     markers->markers[i].end_ns >= markers->markers[i].start_ns);
	for (size_t i = 1; i <= profile_host_count(profile); i++)
		must(markers->hosts[i].is_aligned && markers->hosts[i].reference == markers->hosts[1].name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *to = NULL;
	struct profile_align_result result;
	must(profile_new(&to, NULL) == 0);
	for (int i = 0; i < 2; i++) {
		struct profile *profile = NULL;
		if (format_firefox.decode((struct bytes){data, size}, NULL, &profile, NULL) < 0)
			break;
		must(profile_complete_hosts(profile, "a", NULL) == 0);
		must(profile_align(profile, NULL, NULL, NULL) == 0);
		size_t hosts = profile_host_count(to) + profile_host_count(profile), samples = profile->sample_count;
		must(profile_merge_hosts(to, profile, NULL) == 0);
		must(profile_host_count(to) == hosts && to->sample_count <= samples + (i ? to->sample_count : 0));
		profile_free(profile);
	}
	must(profile_align(to, NULL, &result, NULL) == 0);
	must(result.reversed <= result.exchanges);
	check_times(to);
	if (to->sample_type_count > 0) {
		struct profile *back = NULL;
		struct buffer out;
		buffer_init(&out, LIMIT_PROFILE_FILE_BYTES);
		must(format_encode(&format_firefox, to, NULL, &out, NULL) == 0);
		must(format_firefox.decode(buffer_bytes(&out), NULL, &back, NULL) == 0);
		must(profile_marker_count(back) == profile_marker_count(to));
		profile_free(back);
		buffer_release(&out);
	}
	profile_free(to);
	return 0;
}
