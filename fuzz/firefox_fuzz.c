/* SPDX-License-Identifier: Apache-2.0 */
/* Firefox Profiler files, what is written of them in the oldest version and the newest, and what their markers are good for:
 * the time line, and the spans that samples are in. */
#include "format_check.h"

#include "format/format_int.h"
#include "format/timeline.h"
#include "must.h"
#include "profile/markers.h"
#include "profile/spans.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_timeline(const struct profile *profile, size_t max)
{
	struct timeline *timeline;
	struct buffer text, columns;
	must(timeline_new(profile, max, max, &timeline, NULL) == 0);
	if (!timeline)
		return;
	buffer_init(&text, LIMIT_PROFILE_FILE_BYTES);
	buffer_init(&columns, LIMIT_PROFILE_FILE_BYTES);
	struct json_writer json = {.out = &text};
	timeline_put_json(timeline, &json);
	must(json_finish(&json, NULL) == 0);
	must(timeline_put_samples(timeline, &columns, NULL) == 0);
	must(timeline_put_markers(timeline, &columns, NULL) == 0);
	buffer_release(&text);
	buffer_release(&columns);
	timeline_free(timeline);
}

/* Labels of spans are those of samples that are in one. */
static void check_spans(struct profile *profile)
{
	struct profile_during_found found;
	size_t labelled = 0, markers = profile_marker_count(profile);
	must(profile_label_spans(profile, NULL) == 0);
	for (size_t i = 0; i < profile->sample_count; i++)
		labelled += profile_label_value(profile, profile->samples[i].labels, "span") != NULL;
	if (markers == 0)
		return;
	const char *name = profile_string(profile, profile->markers->markers[markers - 1].name);
	must(profile_filter_during(profile, &name, 1, &found, NULL) == 0);
	must(profile->sample_count <= labelled);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned versions[] = {60, 75};
	struct profile *profile = NULL;
	if (format_firefox.decode((struct bytes){data, size}, NULL, &profile, NULL) < 0)
		return 0;
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct format_options options = {.version = versions[i]};
		struct profile *back = NULL;
		struct buffer out;
		buffer_init(&out, LIMIT_PROFILE_FILE_BYTES);
		must(format_encode(&format_firefox, profile, &options, &out, NULL) == 0);
		must(format_firefox.decode(buffer_bytes(&out), NULL, &back, NULL) == 0);
		profile_free(back);
		buffer_release(&out);
	}
	check_formats(profile);
	check_timeline(profile, SIZE_MAX);
	check_timeline(profile, 2);
	check_spans(profile);
	profile_free(profile);
	return 0;
}
