/* SPDX-License-Identifier: Apache-2.0 */
/* What Pyroscope's Java agent uploads: two bytes that say how long the labels are, the labels, the recording. */
#include "format/jfr/jfr_upload.h"
#include "format_check.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_profile(const struct profile *profile)
{
	size_t values = profile->sample_count * profile->sample_type_count;
	must(profile->sample_type_count > 0 && profile->sample_type_count <= 2);
	for (size_t i = 0; i < values; i++)
		must(profile->values[i] >= 0);
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_label_set *set = &profile->label_sets[profile->samples[i].labels];
		must(set->count <= LIMIT_LABELS_PER_SERIES + 1);
		for (uint32_t j = 0; j < set->count; j++)
			must(profile->labels[set->first + j].key && profile->labels[set->first + j].value);
	}
	check_formats(profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jfr_profiles profiles;
	struct labels series = {0};
	size_t len = size < 2 ? 0 : (size_t)data[0] << 8 | data[1];
	if (size < 2 || len > size - 2)
		return 0;
	must(labels_set(&series, "service_name", "shop", NULL) == 0);
	const struct jfr_upload upload = {.labels = {data + 2, len},
					  .recording = {data + 2 + len, size - 2 - len},
					  .series = &series,
					  .period_ns = 10000000};
	if (jfr_decode_upload(&upload, &profiles, NULL) == 0) {
		for (size_t i = 0; i < profiles.count; i++) {
			must(profiles.items[i].kind < JFR_UPLOAD_PROFILES && profiles.items[i].name[0]);
			check_profile(profiles.items[i].profile);
		}
		must(memchr(profiles.event, '\0', sizeof(profiles.event)));
		jfr_profiles_release(&profiles);
	}
	labels_release(&series);
	return 0;
}
