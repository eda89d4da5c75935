/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.v1: the rules that Grafana's pages let their users write (github.com/grafana/pyroscope, api/settings/v1).
 *
 *   RecordingRulesService    Get, List, Upsert, Delete RecordingRule(s): metrics to be made of profiles
 *     rule                   1 id  2 metric_name  3 profile_type  4 matchers*  5 group_by*  6 external_labels*
 *                            7 generation  8 stacktrace_filter
 *     Upsert                 1 id  2 metric_name  3 matchers*  4 group_by*  5 external_labels*  6 generation
 *                            7 stacktrace_filter  ->  1 rule
 *   CollectionRulesService   Get, List, Upsert, Delete CollectionRule(s): what collectors are to profile (until 2025)
 *     rule                   1 name  2 services* { 1 name  2 enabled }  3 ebpf { 1 enabled }  4 java { 1 enabled }
 *                            5 last_updated  6 generation
 *     Upsert                 1 to 4 as in the rule  6 observed_generation  ->  the rule
 *
 * Rules are stored, listed and returned as they were written. Nothing here acts on them: no metrics are recorded, and
 * collectors get no configuration. Who writes a rule must know the generation of the one that is there, so that of two pages
 * that change one rule at a time the second is refused (ALREADY_EXISTS); a new rule has generation 1.
 *
 * Each kind is a file of the tenant's directory, recording_rules.json and collection_rules.json: the answer to List in
 * protobuf's JSON, read and written whole under the tenant's lock, synced and renamed before the call is acknowledged. So a
 * crash leaves the old rules or the new ones.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"
#include "codec/protobuf.h"
#include "server/http/rpc.h"
#include "server/http/rpc_read.h"
#include "server/pyroscope/messages.h"

#define RULES_MAX     256
#define RULE_MAX      (16 * KIB)
#define TOTAL_MAX     MIB	/* of all of one kind of a tenant */
#define FILE_MAX      (8 * MIB) /* escapes make it longer */
#define ID_LENGTH     10
#define ID_MAX	      256
#define LIST_MAX      100 /* matchers, labels ... of one rule */
#define METRIC_PREFIX "profiles_recorded_"

#define MESSAGE PB_JSON_MESSAGE_OF

static const struct pb_json_message label = MESSAGE("LabelPair", {"name", 1, PB_JSON_STRING}, {"value", 2, PB_JSON_STRING});
static const struct pb_json_enum metric_types[] = {{"TOTAL", 0}, {0}};
static const struct pb_json_message function_filter =
	MESSAGE("StacktraceFilterFunctionName", {"functionName", 1, PB_JSON_STRING},
		{"metricType", 2, PB_JSON_ENUM, .names = metric_types});
static const struct pb_json_message stack_filter =
	MESSAGE("StacktraceFilter", {"functionName", 1, PB_JSON_MESSAGE, .message = &function_filter});
static const struct pb_json_message recording_rule = MESSAGE(
	"RecordingRule", {"id", 1, PB_JSON_STRING}, {"metricName", 2, PB_JSON_STRING}, {"profileType", 3, PB_JSON_STRING},
	{"matchers", 4, PB_JSON_STRING, .repeated = true}, {"groupBy", 5, PB_JSON_STRING, .repeated = true},
	{"externalLabels", 6, PB_JSON_MESSAGE, .repeated = true, .message = &label}, {"generation", 7, PB_JSON_INT64},
	{"stacktraceFilter", 8, PB_JSON_MESSAGE, .message = &stack_filter}, {"provisioned", 9, PB_JSON_BOOL});
static const struct pb_json_message recording_upsert =
	MESSAGE("UpsertRecordingRuleRequest", {"id", 1, PB_JSON_STRING}, {"metricName", 2, PB_JSON_STRING},
		{"matchers", 3, PB_JSON_STRING, .repeated = true}, {"groupBy", 4, PB_JSON_STRING, .repeated = true},
		{"externalLabels", 5, PB_JSON_MESSAGE, .repeated = true, .message = &label}, {"generation", 6, PB_JSON_INT64},
		{"stacktraceFilter", 7, PB_JSON_MESSAGE, .message = &stack_filter});
static const struct pb_json_message recording_answer =
	MESSAGE("RecordingRuleResponse", {"rule", 1, PB_JSON_MESSAGE, .message = &recording_rule});
static const struct pb_json_message recording_list =
	MESSAGE("ListRecordingRulesResponse", {"rules", 1, PB_JSON_MESSAGE, .repeated = true, .message = &recording_rule});

static const struct pb_json_message service = MESSAGE("ServiceData", {"name", 1, PB_JSON_STRING}, {"enabled", 2, PB_JSON_BOOL});
static const struct pb_json_message enabled = MESSAGE("Settings", {"enabled", 1, PB_JSON_BOOL});
static const struct pb_json_message collection_rule = MESSAGE(
	"CollectionRule", {"name", 1, PB_JSON_STRING}, {"services", 2, PB_JSON_MESSAGE, .repeated = true, .message = &service},
	{"ebpf", 3, PB_JSON_MESSAGE, .message = &enabled}, {"java", 4, PB_JSON_MESSAGE, .message = &enabled},
	{"lastUpdated", 5, PB_JSON_INT64}, {"generation", 6, PB_JSON_INT64});
static const struct pb_json_message collection_upsert =
	MESSAGE("UpsertCollectionRuleRequest", {"name", 1, PB_JSON_STRING},
		{"services", 2, PB_JSON_MESSAGE, .repeated = true, .message = &service},
		{"ebpf", 3, PB_JSON_MESSAGE, .message = &enabled}, {"java", 4, PB_JSON_MESSAGE, .message = &enabled},
		{"observedGeneration", 6, PB_JSON_INT64, .explicit_presence = true});
static const struct pb_json_message collection_list =
	MESSAGE("ListCollectionRulesResponse", {"rules", 1, PB_JSON_MESSAGE, .repeated = true, .message = &collection_rule},
		{"generation", 2, PB_JSON_INT64});

static const struct pb_json_message id_request = MESSAGE("RecordingRuleRequest", {"id", 1, PB_JSON_STRING});
static const struct pb_json_message name_request = MESSAGE("CollectionRuleRequest", {"name", 1, PB_JSON_STRING});

/* ---- what both kinds have in common ---- */

struct rules_kind {
	const char *file;
	const char *id; /* what a rule is found by: its field 1 */
	uint32_t generation;
	const struct pb_json_message *list;
};
static const struct rules_kind recording = {"recording_rules.json", "id", 7, &recording_list};
static const struct rules_kind collection = {"collection_rules.json", "name", 6, &collection_list};

struct rule {
	struct bytes message, id;
	int64_t generation;
};
struct rules {
	char path[PATH_BYTES_MAX];
	pthread_mutex_t *lock; /* NULL = not open */
	struct buffer binary;  /* what items point into */
	struct rule items[RULES_MAX];
	size_t count;
	int64_t generation; /* of all together; counted for collection rules */
};

static void rules_release(struct rules *rules)
{
	buffer_release(&rules->binary);
	if (rules->lock)
		pthread_mutex_unlock(rules->lock);
}

static int read_rule(const struct rules_kind *kind, struct bytes message, struct rule *ret, struct error *err)
{
	struct pb_field field;
	struct pb_cursor cursor = pb_open(message);
	int r;
	*ret = (struct rule){.message = message};
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number == 1 && field.wire == PB_BYTES)
			ret->id = field.bytes;
		else if (field.number == kind->generation && field.wire == PB_VARINT)
			ret->generation = (int64_t)field.value;
	}
	return r;
}

static int read_rules(const struct rules_kind *kind, struct rules *rules, struct error *err)
{
	struct pb_field field;
	struct pb_cursor cursor = pb_open(buffer_bytes(&rules->binary));
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number == 2 && field.wire == PB_VARINT)
			rules->generation = (int64_t)field.value;
		if (field.number != 1 || field.wire != PB_BYTES)
			continue;
		if (rules->count == RULES_MAX)
			return error_set(err, -EBADMSG, "more than %d rules", RULES_MAX);
		r = read_rule(kind, field.bytes, &rules->items[rules->count++], err);
		if (r < 0)
			return r;
	}
	return r;
}

static int load(const struct rules_kind *kind, struct rules *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	struct error why = {0};
	buffer_init(&ret->binary, FILE_MAX);
	int r = io_read_file(ret->path, FILE_MAX, &text, &why);
	if (r == -ENOENT)
		return 0;
	if (!r)
		r = pb_json_to_binary(buffer_bytes(&text), kind->list, &ret->binary, &why);
	if (!r)
		r = read_rules(kind, ret, &why);
	/* What is broken here is the server's file, not the request. */
	return r < 0 ? error_set(err, -EIO, "%s: %s", ret->path, why.message) : 0;
}

static int write_rules(const struct rules_kind *kind, const struct rules *rules, struct buffer *out)
{
	for (size_t i = 0; i < rules->count; i++)
		pb_write_bytes(out, 1, rules->items[i].message.data, rules->items[i].message.len);
	if (kind == &collection)
		pb_put_varint(out, 2, (uint64_t)rules->generation);
	return buffer_status(out);
}

static int save(const struct rules_kind *kind, struct rules *rules, struct error *err)
{
	_cleanup_(buffer_release) struct buffer binary = {.max = TOTAL_MAX}, text = {.max = FILE_MAX};
	rules->generation++;
	int r = write_rules(kind, rules, &binary);
	if (r < 0)
		return r == -E2BIG ? error_set(err, -EDQUOT, "all rules together have more than %llu bytes",
					       (unsigned long long)TOTAL_MAX)
				   : error_nomem(err);
	r = pb_json_from_binary(buffer_bytes(&binary), kind->list, &text, err);
	return r < 0 ? r : io_write_file(rules->path, text.data, text.len, 0640, err);
}

static struct rule *find_rule(struct rules *rules, struct bytes id)
{
	for (size_t i = 0; i < rules->count; i++)
		if (bytes_equal(rules->items[i].id, id))
			return &rules->items[i];
	return NULL;
}

/* The rules of the call's tenant, and the lock on them until they are released. -ENOENT: there is no such tenant yet. */
static int open_rules(struct rpc_call *call, const struct rules_kind *kind, struct rules *ret, struct error *err)
{
	struct tenant *tenant;
	*ret = (struct rules){0};
	int r = tenant_of_request(call->server, call->request, false, &tenant, err);
	if (!r)
		r = tenant_path(call->server, tenant, kind->file, ret->path, sizeof(ret->path), err);
	if (r < 0)
		return r;
	ret->lock = thread_lock(&tenant->settings_lock);
	return load(kind, ret, err);
}

/* The same; a tenant that does not exist has none. */
static int open_rules_or_none(struct rpc_call *call, const struct rules_kind *kind, struct rules *ret, struct error *err)
{
	int r = open_rules(call, kind, ret, err);
	return r == -ENOENT ? 0 : r;
}

static int list_rules(struct rpc_call *call, const struct rules_kind *kind, struct buffer *out, struct error *err)
{
	_cleanup_(rules_release) struct rules rules = {0};
	int r = open_rules_or_none(call, kind, &rules, err);
	return r < 0 ? r : rpc_too_large(write_rules(kind, &rules, out), err);
}

static int wanted_id(const struct rules_kind *kind, struct bytes request, struct bytes *ret, struct error *err)
{
	int r = pb_find_bytes(NULL, request, 1, ret, err);
	return !r && !ret->len ? error_set(err, -EINVAL, "%s is required", kind->id) : r;
}

static int no_rule(const struct rules_kind *kind, struct bytes id, struct error *err)
{
	return error_set(err, -ENOENT, "no rule with %s='%.*s' found", kind->id, (int)(id.len < ID_MAX ? id.len : ID_MAX),
			 (const char *)id.data);
}

static int get_rule(struct rpc_call *call, const struct rules_kind *kind, struct bytes request, struct buffer *out,
		    struct error *err)
{
	_cleanup_(rules_release) struct rules rules = {0};
	struct bytes id;
	int r = wanted_id(kind, request, &id, err);
	if (!r)
		r = open_rules_or_none(call, kind, &rules, err);
	if (r < 0)
		return r;
	const struct rule *rule = find_rule(&rules, id);
	if (!rule)
		return no_rule(kind, id, err);
	if (kind == &recording)
		return rpc_too_large(pb_write_bytes(out, 1, rule->message.data, rule->message.len), err);
	return rpc_too_large(buffer_append(out, rule->message.data, rule->message.len), err);
}

static int delete_rule(struct rpc_call *call, const struct rules_kind *kind, struct bytes request, struct error *err)
{
	_cleanup_(rules_release) struct rules rules = {0};
	struct bytes id;
	int r = wanted_id(kind, request, &id, err);
	if (!r)
		r = open_rules(call, kind, &rules, err);
	if (r < 0)
		return r;
	struct rule *rule = find_rule(&rules, id);
	if (!rule)
		return no_rule(kind, id, err);
	size_t at = (size_t)(rule - rules.items);
	rules.count--;
	memmove(rule, rule + 1, (rules.count - at) * sizeof(*rule));
	return save(kind, &rules, err);
}

/* Puts a rule in its place, with a generation that follows that of the one that is there. observed NULL: whatever is there. */
static int put_rule(struct rpc_call *call, const struct rules_kind *kind, struct buffer *message, const int64_t *observed,
		    struct error *err)
{
	_cleanup_(rules_release) struct rules rules = {0};
	struct rule made;
	int r = read_rule(kind, buffer_bytes(message), &made, err);
	if (!r)
		r = open_rules(call, kind, &rules, err);
	if (r < 0)
		return r;
	struct rule *rule = find_rule(&rules, made.id);
	int64_t generation = rule ? rule->generation : 0;
	if (rule && observed && *observed != generation) {
		call->code = GRPC_ALREADY_EXISTS;
		return error_set(err, -EINVAL, "conflicting update, please try again");
	}
	if (!rule && rules.count == RULES_MAX)
		return error_set(err, -EDQUOT, "the limit of %d rules is reached", RULES_MAX);
	if (pb_write_varint(message, kind->generation, (uint64_t)generation + 1) < 0)
		return error_set(err, -EDQUOT, "the rule has more than %llu bytes", (unsigned long long)RULE_MAX);
	rule = rule ? rule : &rules.items[rules.count++];
	rule->message = buffer_bytes(message);
	return save(kind, &rules, err);
}

/* Copies fields of a request under the numbers that they have in a rule; others, and those that come in another wire type, are
 * left out. Those up to `texts` are texts. */
static int copy_fields(struct bytes request, const uint8_t *numbers, size_t count, uint32_t texts, struct buffer *out,
		       struct error *err)
{
	struct pb_field field;
	struct pb_cursor cursor = pb_open(request);
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.wire != PB_BYTES || field.number >= count || !numbers[field.number])
			continue;
		if (field.number <= texts && !text_is_utf8(field.bytes))
			return error_set(err, -EINVAL, "the rule is not UTF-8");
		pb_write_bytes(out, numbers[field.number], field.bytes.data, field.bytes.len);
	}
	return !r && buffer_status(out) < 0
		       ? error_set(err, -EDQUOT, "the rule has more than %llu bytes", (unsigned long long)RULE_MAX)
		       : r;
}

/* ---- recording rules ---- */

struct recording_request {
	const char *id, *metric;
	struct rpc_list matchers, group_by, labels;
	int64_t generation;
};
#define IN(member) offsetof(struct recording_request, member)
static const struct rpc_member recording_members[] = {
	{"id", IN(id)},
	{"metricName", IN(metric)},
	{"matchers", IN(matchers), RPC_LIST},
	{"groupBy", IN(group_by), RPC_LIST},
	{"externalLabels", IN(labels), RPC_LIST},
	{"generation", IN(generation)},
	{0},
};

static bool is_made_of(const char *text, const char *letters)
{
	return *text && text[strspn(text, letters)] == 0;
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static int check_names(const struct rpc_list *names, const char *what, struct error *err)
{
	for (size_t i = 0; i < names->count; i++)
		if (!label_name_is_valid(names->items[i]))
			return error_set(err, -EINVAL, "%s \"%.100s\" must match [a-zA-Z_][a-zA-Z0-9_]*", what,
					 names->items[i]);
	return 0;
}

/* One of the matchers says of which type the metric is made; *ret has room for it. */
static int find_type(const struct recording_request *in, struct buffer *ret, struct error *err)
{
	size_t found = 0;
	for (size_t i = 0; i < in->matchers.count; i++) {
		_cleanup_(selector_freep) struct selector *selector = NULL;
		const char *type;
		int r = selector_parse(in->matchers.items[i], &selector, err);
		if (r < 0)
			return error_prefix(err, r, "matcher %zu", i + 1);
		size_t count = selector_profile_types(selector, &type);
		if (count && !type)
			return error_set(err, -EINVAL, "the matcher of __profile_type__ must be an equality");
		r = count == 1 ? buffer_append_string(ret, type) : 0;
		if (r < 0)
			return r == -E2BIG ? error_set(err, -EINVAL, "the profile type is longer than %zu bytes", ret->max)
					   : error_nomem(err);
		found += count;
	}
	return found == 1 ? 0 : error_set(err, -EINVAL, "matchers must contain one matcher of __profile_type__");
}

static int check_recording(const struct recording_request *in, struct buffer *type, struct error *err)
{
	size_t prefix = strlen(METRIC_PREFIX);
	if (!is_made_of(in->id, LETTERS) || strlen(in->id) > ID_MAX)
		return error_set(err, -EINVAL, "id \"%.100s\" must be of 1 to %d letters", in->id, ID_MAX);
	if (strncmp(in->metric, METRIC_PREFIX, prefix) != 0 || !is_made_of(in->metric + prefix, LETTERS "0123456789_:"))
		return error_set(err, -EINVAL, "metric_name \"%.100s\" must match " METRIC_PREFIX "[a-zA-Z0-9_:]+", in->metric);
	if (in->generation < 0)
		return error_set(err, -EINVAL, "generation must be positive");
	int r = check_names(&in->group_by, "group_by label", err);
	if (!r)
		r = check_names(&in->labels, "external_labels name", err);
	return r < 0 ? r : find_type(in, type, err);
}

static int make_id(char out[static ID_LENGTH + 1], struct error *err)
{
	uint8_t random[ID_LENGTH];
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return error_set(err, -EIO, "no random numbers: %s", strerror(errno));
	for (size_t i = 0; i < ID_LENGTH; i++)
		out[i] = LETTERS[random[i] % (sizeof(LETTERS) - 1)];
	out[ID_LENGTH] = 0;
	return 0;
}

static int upsert_recording(struct rpc_call *call, struct bytes request, struct arena *arena, struct buffer *rule,
			    struct error *err)
{
	static const uint8_t numbers[] = {[2] = 2, [3] = 4, [4] = 5, [5] = 6, [7] = 8};
	const struct rpc_reader reader = {recording_members, arena, LIST_MAX};
	_cleanup_(buffer_release) struct buffer type = {.max = PROFILE_TYPE_TEXT_MAX};
	struct recording_request in = {.id = "", .metric = ""};
	char made[ID_LENGTH + 1];
	int r = rpc_read(&reader, request, &recording_upsert, &in, err);
	if (!r && !*in.id) {
		r = make_id(made, err);
		in.id = made;
	}
	if (!r)
		r = check_recording(&in, &type, err);
	if (r < 0)
		return r;
	pb_write_string(rule, 1, in.id);
	pb_write_bytes(rule, 3, type.data, type.len);
	r = copy_fields(request, numbers, sizeof(numbers), 4, rule, err);
	return r < 0 ? r : put_rule(call, &recording, rule, &in.generation, err);
}

static int handle_upsert_recording(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	_cleanup_(buffer_release) struct buffer rule = {.max = RULE_MAX};
	struct arena arena = {.max_bytes = 4 * RULE_MAX};
	int r = upsert_recording(call, request, &arena, &rule, err);
	arena_release(&arena);
	return r < 0 ? r : rpc_too_large(pb_write_bytes(out, 1, rule.data, rule.len), err);
}

/* ---- collection rules ---- */

static int handle_upsert_collection(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	static const uint8_t numbers[] = {[1] = 1, [2] = 2, [3] = 3, [4] = 4};
	_cleanup_(buffer_release) struct buffer rule = {.max = RULE_MAX};
	struct pb_field field;
	struct bytes name;
	int64_t observed, *known = NULL;
	struct pb_cursor cursor = pb_open(request);
	int r = wanted_id(&collection, request, &name, err);
	if (!r && name.len > ID_MAX)
		r = error_set(err, -EINVAL, "name has more than %d bytes", ID_MAX);
	while (!r && (r = pb_next(&cursor, &field, err)) > 0) {
		r = 0;
		if (field.number != 6 || field.wire != PB_VARINT)
			continue;
		observed = (int64_t)field.value;
		known = &observed;
	}
	if (!r)
		r = copy_fields(request, numbers, sizeof(numbers), 1, &rule, err);
	if (r < 0)
		return r;
	pb_write_varint(&rule, 5, (uint64_t)(time_now_ns() / NS_PER_MS));
	r = put_rule(call, &collection, &rule, known, err);
	return r < 0 ? r : rpc_too_large(buffer_append(out, rule.data, rule.len), err);
}

/* ---- the calls ---- */

#define CALLS(kind)                                                                                                            \
	static int handle_list_##kind(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)      \
	{                                                                                                                      \
		return list_rules(call, &kind, out, err);                                                                      \
	}                                                                                                                      \
	static int handle_get_##kind(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)       \
	{                                                                                                                      \
		return get_rule(call, &kind, request, out, err);                                                               \
	}                                                                                                                      \
	static int handle_delete_##kind(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)    \
	{                                                                                                                      \
		return delete_rule(call, &kind, request, err);                                                                 \
	}
CALLS(recording)
CALLS(collection)

#define RECORDING  "/settings.v1.RecordingRulesService/"
#define COLLECTION "/settings.v1.CollectionRulesService/"
const struct rpc_method rpc_pyroscope_rules[] = {
	{RECORDING "GetRecordingRule", PERMIT_READ, &id_request, &recording_answer, handle_get_recording, RPC_READ_ONLY},
	{RECORDING "ListRecordingRules", PERMIT_READ, &pyroscope_empty, &recording_list, handle_list_recording, RPC_READ_ONLY},
	{RECORDING "UpsertRecordingRule", PERMIT_ADMIN, &recording_upsert, &recording_answer, handle_upsert_recording, 0},
	{RECORDING "DeleteRecordingRule", PERMIT_ADMIN, &id_request, &pyroscope_empty, handle_delete_recording, 0},
	{COLLECTION "GetCollectionRule", PERMIT_READ, &name_request, &collection_rule, handle_get_collection, RPC_READ_ONLY},
	{COLLECTION "ListCollectionRules", PERMIT_READ, &pyroscope_empty, &collection_list, handle_list_collection,
	 RPC_READ_ONLY},
	{COLLECTION "UpsertCollectionRule", PERMIT_ADMIN, &collection_upsert, &collection_rule, handle_upsert_collection, 0},
	{COLLECTION "DeleteCollectionRule", PERMIT_ADMIN, &name_request, &pyroscope_empty, handle_delete_collection, 0},
	{0},
};
