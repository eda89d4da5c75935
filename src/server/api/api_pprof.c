/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles for `go tool pprof URL`, which fetches by GET whatever the URL says and takes what comes for a file. It adds
 * seconds=N if it was called with -seconds, which here means the last N seconds: there is nothing to wait for.
 *
 * A comparison (parameters base, base_from and base_to, shift, as /api/v1/diff has them) is one profile, in the form that pprof
 * itself gives it with -diff_base: the base's samples with their values negated and a label "pprof::base", by which its reports
 * know what percentages refer to (github.com/google/pprof, doc/README.md, "Comparing profiles").
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/sum.h"
#include "base/time.h"
#include "format/format.h"
#include "profile/merge.h"
#include "server/api/api_int.h"

#define BASE_KEY    "pprof::base"
#define SECONDS_MAX (400ull * 24 * 3600)

/* ---- a comparison as one profile ---- */

struct join {
	const struct profile *from;
	struct profile *to;
	struct profile_copy *copy;
	struct profile_label *labels; /* of one sample */
	size_t label_capacity;
	uint32_t key, value; /* BASE_KEY, "true" */
};

static int join_start(struct join *join, struct error *err)
{
	const struct profile_value_type *new_side = &join->from->sample_types[1];
	uint32_t type, unit;
	int r = profile_copy_string(join->copy, new_side->type, &type, err);
	if (!r)
		r = profile_copy_string(join->copy, new_side->unit, &unit, err);
	if (!r)
		r = profile_add_sample_type(join->to, type, unit, err);
	if (!r)
		r = profile_add_cstring(join->to, BASE_KEY, &join->key, err);
	return r < 0 ? r : profile_add_cstring(join->to, "true", &join->value, err);
}

static int add_base_label(struct join *join, uint32_t *labels, struct error *err)
{
	struct profile_label_set set = join->to->label_sets[*labels];
	if (array_reserve(&join->labels, &join->label_capacity, (size_t)set.count + 1, UINT32_MAX) < 0)
		return error_nomem(err);
	for (uint32_t i = 0; i < set.count; i++)
		join->labels[i] = join->to->labels[set.first + i];
	join->labels[set.count] = (struct profile_label){.key = join->key, .value = join->value};
	return profile_add_label_set(join->to, join->labels, (size_t)set.count + 1, labels, err);
}

static int join_sample(struct join *join, size_t i, struct error *err)
{
	const struct profile_sample *from = &join->from->samples[i];
	int64_t base = join->from->values[2 * i], value = join->from->values[2 * i + 1];
	struct profile_sample sample = {0};
	int r = profile_copy_stack(join->copy, from->stack, &sample.stack, err);
	if (!r)
		r = profile_copy_label_set(join->copy, from->labels, &sample.labels, err);
	if (!r)
		r = profile_copy_label_set(join->copy, from->numbers, &sample.numbers, err);
	if (!r && value)
		r = profile_add_sample(join->to, &sample, &value, err);
	if (r < 0 || !base)
		return r;
	base = sum_negate(base);
	r = add_base_label(join, &sample.labels, err);
	return r < 0 ? r : profile_add_sample(join->to, &sample, &base, err);
}

static int join_sides(const struct profile *from, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *to = NULL;
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	int r = profile_new(&to, err);
	if (!r)
		r = profile_copy_new(to, from, &copy, err);
	if (r < 0)
		return r;
	struct join join = {.from = from, .to = to, .copy = copy};
	if (from->sample_type_count == 2)
		r = join_start(&join, err);
	for (size_t i = 0; !r && i < from->sample_count; i++)
		r = join_sample(&join, i, err);
	mem_free(join.labels);
	if (r < 0)
		return r;
	to->time_ns = from->time_ns;
	to->duration_ns = from->duration_ns;
	to->period = from->period;
	*ret = TAKE(to);
	return 0;
}

/* ---- the call ---- */

static void read_seconds(struct call *call)
{
	uint64_t seconds = call_count(call, "seconds", 0, 0);
	if (!seconds || call->failed || call_parameter(call, "from", NULL))
		return;
	if (seconds > SECONDS_MAX) {
		call_refuse(call, "parameter 'seconds': %llu is more than 400 days", (unsigned long long)seconds);
		return;
	}
	call->query.from_ns = call->requested_from_ns = call->requested_to_ns - (int64_t)seconds * NS_PER_S;
	call->query.to_ns = call->requested_to_ns;
	if (!call->exact)
		query_round_range(&call->query.from_ns, &call->query.to_ns);
}

/* Which profile it was, for those who look at the file later. */
static int add_comments(struct profile *profile, const struct query_result *result, struct error *err)
{
	char type[PROFILE_TYPE_TEXT_MAX], from[TIME_TEXT_MAX], to[TIME_TEXT_MAX], range[2 * TIME_TEXT_MAX + 16];
	const char *texts[] = {result->explain.query, range, type};
	if (!result->type.name[0])
		return 0;
	profile_type_format(&result->type, type);
	snprintf(range, sizeof(range), "%s to %s", time_format(result->from_ns, from), time_format(result->to_ns, to));
	int r = 0;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts) && !r; i++)
		r = texts[i] ? profile_add_comment_text(profile, texts[i], err) : 0;
	return r;
}

static int answer_pprof(struct call *call, struct error *err)
{
	_cleanup_(query_result_release) struct query_result result = {0};
	_cleanup_(profile_freep) struct profile *joined = NULL;
	read_seconds(call);
	call_text(call, "query");
	call->numbers = true;
	bool compared = call_append_base(call);
	int r = call_run_text(call, &result);
	if (!r && result.kind != (compared ? QUERY_DIFF : QUERY_PROFILE))
		r = call_refuse(call, "the result of this query is a %s, not a profile; use /api/v1/pipeline",
				query_kind_name(result.kind));
	if (!r && compared)
		r = join_sides(result.profile, &joined, err);
	struct profile *profile = joined ? joined : result.profile;
	if (!r)
		r = add_comments(profile, &result, err);
	if (r < 0)
		return r;
	net_response_header(call->response, "Content-Disposition", "attachment; filename=\"profile.pb.gz\"");
	call->response->content_type = "application/octet-stream";
	call->response->no_compress = true;
	struct format_sink sink = call_sink(call);
	return pprof_write(profile, &sink, err);
}

void api_pprof(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	int status = call_perform(context, request, response, answer_pprof, &err);
	if (!status)
		return;
	response->status = status;
	response->content_type = "text/plain; charset=utf-8";
	response->no_compress = false;
	buffer_clear(&response->body);
	net_response_header(response, "X-Go-Pprof", "1");    /* makes pprof print the text */
	buffer_printf(&response->body, "%s\n", err.message); /* without memory the status still says it */
}
