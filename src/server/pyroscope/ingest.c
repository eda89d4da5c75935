/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /ingest, as Pyroscope's SDKs send (grafana.com/docs/pyroscope, "Server HTTP API"; github.com/grafana/pyroscope,
 * pkg/ingester/pyroscope). Parameters: name=APP{LABEL=VALUE,...}, from, until, sampleRate, spyName, units, aggregationType,
 * format. What the body is depends on them in this order:
 *
 *   format trie, or content type binary/octet-stream+trie     stacks (format/pyroscope.c), as are the next two and the last
 *   format tree, or content type binary/octet-stream+tree
 *   format lines
 *   format jfr         a recording, or a form with it in `jfr`, and perhaps labels in `labels` (format/jfr/jfr_upload.h)
 *   format pprof, speedscope
 *   content type multipart/form-data   a form with a pprof in `profile`
 *   anything else      groups: folded stacks
 *
 * Stacks say nothing of what they count. The end of the application's name does ("app.alloc_space"), or `units`, or else it is
 * CPU time: so many samples at sampleRate a second. The application's name without that end becomes the label service_name, if
 * the labels do not have one.
 *
 * A pprof of Go's heap counts from the start of the process. Clients subtract by themselves; old ones send it with the one
 * before, in `prev_profile`, which Pyroscope refuses, and so do we.
 *
 * Functions of scripting languages (by spyName) are named with their file, "app/models.rb find", as Pyroscope has them.
 *
 * Status: 200; 400 the parameters are wrong; 408 and 413 the body did not come or is too large; 422 it is malformed; 429 a
 * limit; 507, 503 later.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/json_tree.h"
#include "codec/multipart.h"
#include "format/format.h"
#include "format/jfr/jfr_upload.h"
#include "format/pyroscope.h"
#include "server/ingest/ingest_int.h"
#include "server/pyroscope/routes.h"

#define SAMPLE_RATE_DEFAULT 100
#define SAMPLE_RATE_MAX	    NS_PER_S

struct push {
	struct ingest ingest;
	const struct net_request *request;
	const char *format, *content_type, *units, *spy;
	char app[PYROSCOPE_NAME_MAX];
	struct labels labels;
	int64_t from_ns, until_ns, received_ns;
	uint64_t sample_rate;
	bool average;
	struct json_tree *config; /* sample_type_config; NULL = none */
	uint64_t without_stack;	  /* events of a recording that were left out */
	bool bad_parameters;	  /* why it failed */
};

static void push_release(struct push *push)
{
	labels_release(&push->labels);
	push->config = json_tree_free(push->config);
}

/* ---- parameters ---- */

/* As Pyroscope reads times: besides what time_parse() takes, minutes as "min", and digits of any other number as seconds. */
static int read_time(const struct push *push, const char *name, int64_t *ret, struct error *err)
{
	const char *text = net_request_query(push->request, name);
	char copy[TIME_TEXT_MAX];
	uint64_t seconds;
	*ret = push->received_ns;
	if (!text || !*text)
		return 0;
	size_t len = strlen(text);
	bool minutes = len > 3 && len < sizeof(copy) && text_ends_with(text, "min");
	snprintf(copy, sizeof(copy), "%.*s", minutes ? (int)len - 2 : 0, text);
	if (time_parse(minutes ? copy : text, push->received_ns, ret, NULL) == 0)
		return 0;
	if (text_parse_u64(text, &seconds, NULL) < 0 || seconds > INT64_MAX / NS_PER_S)
		return error_set(err, -EINVAL, "%s: '%.60s' is not a time: send unix seconds, ms, us or ns, or now-1h", name,
				 text);
	*ret = (int64_t)seconds * NS_PER_S;
	return 0;
}

static int read_parameters(struct push *push, struct error *err)
{
	const struct net_request *request = push->request;
	const char *name = net_request_query(request, "name"), *rate = net_request_query(request, "sampleRate");
	const char *aggregation = net_request_query(request, "aggregationType"), *format = net_request_query(request, "format");
	const char *type = net_request_header(request, "content-type");
	int r = pyroscope_parse_name(name ? name : "", push->app, &push->labels, err);
	if (!r)
		r = read_time(push, "from", &push->from_ns, err);
	if (!r)
		r = read_time(push, "until", &push->until_ns, err);
	push->format = format ? format : "";
	push->content_type = type ? type : "";
	push->units = net_request_query(request, "units");
	push->spy = net_request_query(request, "spyName");
	push->average = aggregation && strcmp(aggregation, "average") == 0;
	/* A rate that makes no sense is as if there were none: clients send it with profiles that have no use for it. */
	if (!rate || text_parse_u64(rate, &push->sample_rate, NULL) < 0 || !push->sample_rate ||
	    push->sample_rate > SAMPLE_RATE_MAX)
		push->sample_rate = SAMPLE_RATE_DEFAULT;
	if (!r && push->spy && *push->spy)
		r = labels_set(&push->labels, "pyroscope_spy", push->spy, err);
	return r;
}

/* A label of our own; that the series has too many then is no matter of the body's size. */
static int set_label(struct push *push, const char *name, const char *value, struct error *err)
{
	int r = labels_set(&push->labels, name, value, err);
	if (r != -E2BIG)
		return r;
	push->ingest.note.reason = REFUSED_LABELS;
	return -EINVAL;
}

static int name_service(struct push *push, struct error *err)
{
	return labels_get(&push->labels, "service_name") ? 0 : set_label(push, "service_name", push->app, err);
}

/* Equal bodies are equal profiles only if everything else is equal, too; and without a time of its own, no two are. */
static void identify_request(struct push *push, const char *target)
{
	const char *from = net_request_query(push->request, "from");
	push->ingest.salt = hash64(target, strlen(target));
	bool has_time = from && *from && strncmp(from, "now", 3) != 0 && *from != '-';
	/* With a key of the client's it is the same one when it comes again. */
	if (!has_time)
		push->ingest.salt ^= push->ingest.attempt ? push->ingest.attempt : (uint64_t)push->received_ns;
}

/* ---- what stacks count ---- */

struct kind {
	const char *suffix, *name, *type, *unit;
	bool timed; /* samples at a rate, kept as time */
};
static const struct kind kinds[] = {
	{"cpu", "process_cpu", "cpu", "nanoseconds", true},
	{"itimer", "process_cpu", "cpu", "nanoseconds", true},
	{"wall", "wall", "wall", "nanoseconds", true},
	{"inuse_objects", "memory", "inuse_objects", "count", false},
	{"inuse_space", "memory", "inuse_space", "bytes", false},
	{"alloc_objects", "memory", "alloc_objects", "count", false},
	{"alloc_space", "memory", "alloc_space", "bytes", false},
	{"alloc_in_new_tlab_objects", "memory", "alloc_in_new_tlab_objects", "count", false},
	{"alloc_in_new_tlab_bytes", "memory", "alloc_in_new_tlab_bytes", "bytes", false},
	{"alloc_outside_tlab_objects", "memory", "alloc_outside_tlab_objects", "count", false},
	{"alloc_outside_tlab_bytes", "memory", "alloc_outside_tlab_bytes", "bytes", false},
	{"live", "memory", "live", "count", false},
	{"bytes", "memory", "samples", "bytes", false},
	{"goroutines", "goroutine", "goroutines", "count", false},
	{"mutex_count", "mutex", "contentions", "count", false},
	{"mutex_duration", "mutex", "delay", "nanoseconds", false},
	{"block_count", "block", "contentions", "count", false},
	{"block_duration", "block", "delay", "nanoseconds", false},
	{"lock_count", "block", "contentions", "count", false},
	{"lock_duration", "block", "delay", "nanoseconds", false},
	{"exceptions", "exceptions", "samples", "count", false},
	{"seconds", "wall", "wall", "nanoseconds", true},
	{"milliseconds", "wall", "wall", "nanoseconds", true},
	{"microseconds", "wall", "wall", "nanoseconds", true},
	{"nanoseconds", "wall", "wall", "nanoseconds", true},
};

static const struct kind *kind_of_suffix(const char *suffix)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].suffix, suffix) == 0)
			return &kinds[i];
	return NULL;
}

/* For applications whose name does not tell. */
static const char *suffix_of_units(const struct push *push)
{
	static const struct {
		const char *units, *sum, *average;
	} table[] = {
		{"bytes", "alloc_space", "inuse_space"},	{"objects", "alloc_objects", "inuse_objects"},
		{"goroutines", "goroutines", "goroutines"},	{"lock_nanoseconds", "mutex_duration", "mutex_duration"},
		{"lock_samples", "mutex_count", "mutex_count"},
	};
	for (size_t i = 0; push->units && i < sizeof(table) / sizeof(table[0]); i++)
		if (strcmp(table[i].units, push->units) == 0)
			return push->average ? table[i].average : table[i].sum;
	return "cpu";
}

/* The kind by the suffix of the application's name, which is then removed, or else by the units. */
static const struct kind *take_kind(struct push *push)
{
	char *dot = strrchr(push->app, '.');
	const struct kind *kind = dot && dot > push->app ? kind_of_suffix(dot + 1) : NULL;
	if (kind)
		*dot = '\0';
	return kind ? kind : kind_of_suffix(suffix_of_units(push));
}

static int set_type(struct profile *profile, struct profile_value_type *type, const char *name, const char *unit,
		    struct error *err)
{
	int r = profile_add_cstring(profile, name, &type->type, err);
	return r < 0 ? r : profile_add_cstring(profile, unit, &type->unit, err);
}

/* Gives the one sample type its name; and time, of which a sample is one period, its period. */
static int name_kind(const struct push *push, const struct kind *kind, struct profile *profile, struct error *err)
{
	int r = set_type(profile, &profile->sample_types[0], kind->type, kind->unit, err);
	if (r < 0 || !kind->timed)
		return r;
	profile->period = NS_PER_S / (int64_t)push->sample_rate;
	return set_type(profile, &profile->period_type, "cpu", "nanoseconds", err);
}

/* The same, of samples: they become time, if their kind is. Saturates. */
static int apply_kind(const struct push *push, const struct kind *kind, struct profile *profile, struct error *err)
{
	int r = name_kind(push, kind, profile, err);
	for (size_t i = 0; !r && kind->timed && i < profile->sample_count; i++)
		if (__builtin_mul_overflow(profile->values[i], profile->period, &profile->values[i]))
			profile->values[i] = INT64_MAX;
	return r;
}

/* ---- bodies ---- */

/* What is there at a time, unlike what happens over one, has no duration. */
static bool has_level(const struct profile *profile)
{
	for (size_t i = 0; i < profile->sample_type_count; i++) {
		const char *type = profile_string(profile, profile->sample_types[i].type);
		if (strstr(type, "inuse") || strstr(type, "goroutine") || strcmp(type, "live") == 0)
			return true;
	}
	return false;
}

/* The request's time, unless the profile has its own. fallback_ns: the duration if the request has none. */
static void date_profile(const struct push *push, struct profile *profile, int64_t fallback_ns)
{
	int64_t duration_ns;
	/* Old clients have no time, or one in microseconds, which is a few minutes of 1970. */
	if (profile->time_ns < 366ll * 24 * 3600 * NS_PER_S)
		profile->time_ns = push->from_ns;
	if (profile->duration_ns || has_level(profile))
		return;
	if (push->until_ns <= push->from_ns)
		profile->duration_ns = fallback_ns;
	else if (!__builtin_sub_overflow(push->until_ns, push->from_ns, &duration_ns))
		profile->duration_ns = duration_ns;
}

static int store(struct push *push, struct profile *profile, const char *name, struct error *err)
{
	int r = name_service(push, err);
	/* Without samples, a level says that there was nothing, which averages count. */
	if (r < 0 || (!profile->sample_count && !has_level(profile)))
		return r;
	date_profile(push, profile, 0);
	r = ingest_take_pprof(profile, name, err);
	return r < 0 ? r : ingest_store(&push->ingest, profile, name, &push->labels, push->ingest.profiles, err);
}

static int take_stacks(struct push *push, enum pyroscope_stacks form, struct bytes body, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	const struct kind *kind = take_kind(push);
	int r = pyroscope_decode_stacks(form, body, &profile, err);
	if (r < 0)
		return r;
	r = profile_aggregate(profile, err);
	if (!r)
		r = apply_kind(push, kind, profile, err);
	return r < 0 ? r : store(push, profile, kind->name, err);
}

/* What the configuration, or without one what is known of Go's types, calls a sample type. */
static const char *display_name(const struct push *push, const char *type)
{
	static const struct {
		const char *type, *display;
	} defaults[] = {
		{"samples", "cpu"}, {"goroutine", "goroutines"}, {"contentions", "mutex_count"}, {"delay", "mutex_duration"}};
	if (push->config) {
		const struct json_node *entry = json_node_get(json_tree_root(push->config), type);
		const char *display = json_node_text(json_node_get(entry, "display-name"));
		return display && *display ? display : type;
	}
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		if (strcmp(defaults[i].type, type) == 0)
			return defaults[i].display;
	return type;
}

/* The first part of the profile type, as Pyroscope derives it from the sample types. */
static const char *pprof_name(const struct push *push, const struct profile *profile)
{
	for (size_t i = 0; i < profile->sample_type_count; i++)
		if (strcmp(profile_string(profile, profile->sample_types[i].type), "wall") == 0)
			return "wall";
	for (size_t i = 0; i < profile->sample_type_count; i++) {
		const char *display = display_name(push, profile_string(profile, profile->sample_types[i].type));
		if (strstr(display, "cpu"))
			return "process_cpu";
		if (strstr(display, "alloc_") || strstr(display, "inuse_") || strstr(display, "alloc-") ||
		    strstr(display, "inuse-") || strcmp(display, "space") == 0 || strcmp(display, "objects") == 0)
			return "memory";
		if (strstr(display, "mutex_"))
			return "mutex";
		if (strstr(display, "block_"))
			return "block";
		if (strstr(display, "goroutines"))
			return "goroutines";
	}
	return NULL;
}

static int decode(const char *format, const char *what, struct bytes body, struct profile **ret, struct error *err)
{
	const struct format *reader = format_by_name(format);
	struct format_options options = {.input_name = what};
	if (!reader || !reader->decode)
		return error_set(err, -EINVAL, "%s: unsupported format '%s'", what, format);
	return format_decode(reader, body, &options, ret, err);
}

/* .NET's client writes "inuse-space". */
static int fix_types(struct profile *profile, struct error *err)
{
	int r = 0;
	for (size_t i = 0; i < profile->sample_type_count && !r; i++) {
		char name[64];
		snprintf(name, sizeof(name), "%s", profile_string(profile, profile->sample_types[i].type));
		if (!strchr(name, '-'))
			continue;
		for (char *at = name; *at; at++)
			*at = *at == '-' ? '_' : *at;
		r = profile_add_cstring(profile, name, &profile->sample_types[i].type, err);
	}
	return r;
}

/* Function names of scripting languages begin with the file, but for py-spy's absolute paths. */
static int join_files(const struct push *push, struct profile *profile, struct error *err)
{
	static const char *const scripting[] = {"pyspy", "rbspy", "scripting"};
	if (!push->spy || text_find_name(scripting, sizeof(scripting) / sizeof(scripting[0]), push->spy) < 0)
		return 0;
	bool is_python = strcmp(push->spy, "pyspy") == 0;
	_cleanup_(buffer_release) struct buffer name = {.max = LIMIT_PROFILE_INPUT_BYTES};
	for (size_t i = 1; i < profile->function_count; i++) {
		struct profile_function *function = &profile->functions[i];
		const char *file = profile_string(profile, function->file_name);
		if (!*file || (is_python && *file == '/'))
			continue;
		buffer_clear(&name);
		if (buffer_printf(&name, "%s %s", file, profile_string(profile, function->name)) < 0)
			return error_nomem(err);
		int r = profile_add_bytes(profile, buffer_bytes(&name), &function->name, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_pprof(struct push *push, struct bytes body, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	if (body.len == 0)
		return 0;
	int r = decode("pprof", "profile", body, &profile, err);
	if (!r)
		r = join_files(push, profile, err);
	if (r < 0)
		return r;
	const char *name = pprof_name(push, profile);
	r = fix_types(profile, err);
	return r < 0 ? r : store(push, profile, name, err);
}

static int take_speedscope(struct push *push, struct bytes body, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	const struct kind *kind = take_kind(push);
	int r = decode("speedscope", "profile", body, &profile, err);
	if (r < 0)
		return r;
	/* Its own unit says more than the application's name, if it has one. */
	const char *unit = profile_string(profile, profile->sample_types[0].unit);
	if (profile->sample_type_count == 1 && strcmp(unit, "count") == 0)
		r = apply_kind(push, kind, profile, err);
	else if (profile->sample_type_count == 1 && strcmp(unit, "nanoseconds") == 0 && kind->timed)
		r = name_kind(push, kind, profile, err);
	unit = profile_string(profile, profile->sample_types[0].unit);
	const char *name = strcmp(unit, "bytes") == 0 ? "memory" : kind->name;
	return r < 0 ? r : store(push, profile, name, err);
}

struct form {
	struct bytes profile, previous, config, jfr, labels;
};

static int read_form(const char *content_type, struct bytes body, struct form *ret, struct error *err)
{
	struct multipart multipart;
	struct multipart_part part;
	const struct {
		const char *name;
		struct bytes *to;
	} fields[] = {{"profile", &ret->profile},
		      {"prev_profile", &ret->previous},
		      {"sample_type_config", &ret->config},
		      {"jfr", &ret->jfr},
		      {"labels", &ret->labels}};
	*ret = (struct form){0};
	int r = multipart_open(&multipart, content_type, body, err);
	while (!r && (r = multipart_next(&multipart, &part, err)) > 0) {
		for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
			if (bytes_equal_string(part.name, fields[i].name) && !fields[i].to->data)
				*fields[i].to = part.data;
		r = 0;
	}
	return r < 0 ? error_prefix(err, r, "form") : 0;
}

#define CONFIG_BYTES_MAX (64 * KIB)

static int take_form(struct push *push, struct bytes body, struct error *err)
{
	struct form form;
	int r = read_form(push->content_type, body, &form, err);
	if (!r && form.config.len > CONFIG_BYTES_MAX)
		r = error_set(err, -EBADMSG, "sample_type_config: more than %d bytes", (int)CONFIG_BYTES_MAX);
	if (!r && form.config.len) {
		r = json_tree_read(form.config, 0, &push->config, err);
		r = r < 0 ? error_prefix(err, r, "sample_type_config") : 0;
	}
	if (!r && form.previous.data)
		r = error_set(err, -EBADMSG,
			      "prev_profile is not supported: update the client (github.com/grafana/pyroscope-go)");
	return r < 0 ? r : take_pprof(push, form.profile, err);
}

/* Labels that Pyroscope gives to the profiles of a recording, whatever is in it. */
static int label_jfr(struct push *push, struct error *err)
{
	bool is_named = labels_get(&push->labels, "service_name") != NULL;
	int r = name_service(push, err);
	if (!r && is_named && !labels_get(&push->labels, "app_name"))
		r = set_label(push, "app_name", push->app, err);
	return !r && !(push->spy && *push->spy) ? set_label(push, "pyroscope_spy", "unknown", err) : r;
}

static int store_jfr(struct push *push, const struct jfr_profiles *profiles, struct error *err)
{
	int r = 0;
	for (size_t i = 0; !r && i < profiles->count; i++) {
		struct profile *profile = profiles->items[i].profile;
		const char *name = profiles->items[i].name;
		date_profile(push, profile, profiles->duration_ns);
		r = ingest_take_pprof(profile, name, err);
		if (!r)
			r = ingest_store_next(&push->ingest, profile, name, &push->labels, profiles->items[i].kind, err);
	}
	return ingest_finish_all(&push->ingest, r, "jfr", err);
}

static int take_recording(struct push *push, struct bytes recording, struct bytes labels, struct error *err)
{
	_cleanup_(jfr_profiles_release) struct jfr_profiles profiles = {0};
	const struct jfr_upload upload = {.recording = recording,
					  .labels = labels,
					  .series = &push->labels,
					  .period_ns = NS_PER_S / (int64_t)push->sample_rate};
	int r = label_jfr(push, err);
	if (r < 0)
		return r;
	r = jfr_decode_upload(&upload, &profiles, err);
	if (r < 0)
		return error_prefix(err, r, "jfr");
	push->without_stack = profiles.without_stack;
	r = set_label(push, "jfr_event", profiles.event, err);
	return r < 0 ? r : store_jfr(push, &profiles, err);
}

#define JFR_LABELS_BYTES_MAX (16 * MIB)

static int take_jfr(struct push *push, struct bytes body, struct error *err)
{
	_cleanup_(buffer_release) struct buffer recording = {.max = LIMIT_PROFILE_INPUT_BYTES};
	_cleanup_(buffer_release) struct buffer labels = {.max = JFR_LABELS_BYTES_MAX};
	struct form form = {.jfr = body};
	int r = strstr(push->content_type, "multipart/form-data") ? read_form(push->content_type, body, &form, err) : 0;
	if (!r && !form.jfr.len)
		r = error_set(err, -EBADMSG, "the recording is missing: send it as the body, or as the field `jfr` of a form");
	if (r < 0)
		return r;
	r = format_unpack(&form.jfr, &recording, err);
	if (r < 0)
		return error_prefix(err, r, "jfr");
	r = form.labels.len ? format_unpack(&form.labels, &labels, err) : 0;
	if (r < 0)
		return error_prefix(err, r, "labels");
	return take_recording(push, form.jfr, form.labels, err);
}

static int take_body(struct push *push, struct bytes body, struct error *err)
{
	const char *format = push->format, *type = push->content_type;
	if (strcmp(format, "trie") == 0 || strcmp(type, "binary/octet-stream+trie") == 0)
		return take_stacks(push, PYROSCOPE_TRIE, body, err);
	if (strcmp(format, "tree") == 0 || strcmp(type, "binary/octet-stream+tree") == 0)
		return take_stacks(push, PYROSCOPE_TREE, body, err);
	if (strcmp(format, "lines") == 0)
		return take_stacks(push, PYROSCOPE_LINES, body, err);
	if (strcmp(format, "jfr") == 0)
		return take_jfr(push, body, err);
	if (strcmp(format, "pprof") == 0)
		return strstr(type, "multipart/form-data") ? take_form(push, body, err) : take_pprof(push, body, err);
	if (strcmp(format, "speedscope") == 0)
		return take_speedscope(push, body, err);
	if (strstr(type, "multipart/form-data"))
		return take_form(push, body, err);
	return take_stacks(push, PYROSCOPE_GROUPS, body, err);
}

static int take(struct push *push, struct error *err)
{
	int r = read_parameters(push, err);
	if (r < 0) {
		push->bad_parameters = true;
		push->ingest.note.reason = REFUSED_INVALID;
		return r;
	}
	return take_body(push, push->ingest.body, err);
}

static int status_of(const struct push *push, int r)
{
	if (push->bad_parameters)
		return r == -ENOMEM ? 503 : 400;
	return r == -EBADMSG ? 422 : http_status_of(r);
}

void pyroscope_respond(struct net_response *response, int status, const char *text)
{
	static const struct {
		int status;
		const char *code;
	} codes[] = {{400, "invalid_argument"},	  {422, "invalid_argument"},   {413, "resource_exhausted"},
		     {429, "resource_exhausted"}, {507, "resource_exhausted"}, {408, "deadline_exceeded"},
		     {404, "not_found"},	  {499, "canceled"},	       {500, "internal"},
		     {501, "unimplemented"},	  {504, "deadline_exceeded"},  {503, "unavailable"},
		     {401, "unauthenticated"},	  {403, "permission_denied"}};
	const char *code = "unknown";
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		code = codes[i].status == status ? codes[i].code : code;
	respond_code(response, status, code, text);
}

/* Pyroscope leaves them out, too, and does not say so. */
static void warn_stacks(const struct push *push, struct net_response *response)
{
	char text[80];
	snprintf(text, sizeof(text), "%" PRIu64 " events without a stack were left out", push->without_stack);
	if (push->without_stack)
		net_response_header(response, "X-Wick-Warning", text);
}

void pyroscope_ingest(void *context, const struct net_request *request, struct net_response *response)
{
	_cleanup_(push_release) struct push push = {.request = request, .received_ns = time_now_ns()};
	struct error err = {0};
	int r = ingest_begin(&push.ingest, context, request, net_request_body(request), &err);
	identify_request(&push, net_request_target(request));
	if (!r)
		r = take(&push, &err);
	ingest_count(&push.ingest, r);
	if (!r) {
		ingest_warn(&push.ingest, response);
		warn_stacks(&push, response);
		return;
	}
	refusal_headers(response, r, &push.ingest.note);
	pyroscope_respond(response, status_of(&push, r), err.message);
}
