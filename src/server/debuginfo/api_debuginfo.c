/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug information: which binaries there are and what is known of them, what of it agents should send, and how they send it.
 *
 * Binaries and what is uploaded for them are a tenant's (core/symbols.c): each is asked for what it lacks itself, whatever
 * others have. Several files may have one build-id: agents say which they have (elf/content_key.h). What may be sent is decided
 * by src/symbol/uploads.c; here it is turned into HTTP. A status tells a client what to do: 409 somebody has done it or is
 * doing it, or it is one too many (`reason`), or go on elsewhere (`offset`), 503 and 507 later, everything else never.
 */
#include <jansson.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "server/debuginfo/api_debuginfo.h"

#define UPLOADS_PATH	 "/api/v1/debuginfo/uploads/"
#define BINARIES_PATH	 "/api/v1/binaries/"
#define WANTED_MAX	 1000
#define WANTED_RETRY_S	 30
#define BUSY_RETRY_S	 "30"
#define BINARIES_DEFAULT 100
#define BINARIES_LIMIT	 10000
#define KINDS_MAX	 16 /* asked for of a binary */

static const char *reason_of(int code)
{
	return code == -EEXIST	 ? "exists"
	       : code == -EBUSY	 ? "busy"
	       : code == -EDQUOT ? "contents"
	       : code == -EACCES ? "disabled"
				 : NULL;
}

/* offset: where the client is to go on; NULL = nowhere. */
static void respond_failure(struct net_response *response, int code, const uint64_t *offset, const struct error *err)
{
	const char *reason = reason_of(code);
	int status = code == -EINVAL ? 400 : code == -EDQUOT ? 409 : http_status_of(code);
	if (status == 503 || status == 507 || code == -EBUSY)
		net_response_header(response, "Retry-After", BUSY_RETRY_S);
	respond_error(response, status, err->message);
	if (!reason && !offset)
		return;
	buffer_clear(&response->body);
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	json_member_cstring(&json, "error", err->message);
	if (reason)
		json_member_cstring(&json, "reason", reason);
	if (offset)
		json_member_uint(&json, "offset", *offset);
	json_end_object(&json);
	json_finish(&json, NULL); /* without memory for the text the status still says it */
}

static void respond_done(struct net_response *response, int r, const uint64_t *offset, const struct error *err)
{
	if (r < 0)
		respond_failure(response, r, offset, err);
	else if (buffer_append_string(&response->body, "{}") < 0)
		respond_error(response, 503, "out of memory");
}

/* ---- binaries ---- */

static void write_counters(struct json_writer *json, const char *const *names, const uint64_t *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		json_member_uint(json, names[i], values[i]);
}

static void write_binary(struct json_writer *json, const struct symbol_status *binary)
{
	static const char *const names[] = {"samples", "first_seen_ms",	    "last_seen_ms", "functions",
					    "lines",   "table_bytes",	    "input_bytes",  "build_ms",
					    "cpu_ms",  "memory_peak_bytes", "retry_ms"};
	const uint64_t values[] = {binary->samples,
				   (uint64_t)(binary->first_seen_ns / NS_PER_MS),
				   (uint64_t)(binary->last_seen_ns / NS_PER_MS),
				   binary->functions,
				   binary->rows,
				   binary->table_bytes,
				   binary->input_bytes,
				   (uint64_t)(binary->build_ns / NS_PER_MS),
				   (uint64_t)(binary->cpu_ns / NS_PER_MS),
				   binary->memory_peak_bytes,
				   (uint64_t)(binary->retry_ns / NS_PER_MS)};
	char sources[64];
	json_begin_object(json);
	json_member_cstring(json, "build_id", binary->build_id);
	json_member_cstring(json, "path", binary->path);
	json_member_cstring(json, "state", symbol_state_names[binary->state]);
	json_member_cstring(json, "sources", symbol_sources_text(binary->sources, sources));
	json_member_cstring(json, "why", binary->why);
	json_member_cstring(json, "from", binary->from);
	json_member_bool(json, "ambiguous", binary->contents > 1);
	write_counters(json, names, values, sizeof(values) / sizeof(*values));
	json_end_object(json);
}

/* What was counted is of all tenants, and for /metrics where there are some. */
static void write_uploads(struct json_writer *json, struct server *server, const struct tenant *tenant)
{
	static const char *const names[] = {"files",   "bytes",	 "open",	   "begun",   "finished",
					    "refused", "failed", "bytes_received", "evicted", "contents_refused"};
	struct uploads_stats stats;
	bool has_tenants = server->options.tenants;
	if (has_tenants)
		uploads_get_tenant_stats(server->uploads, symbols_tenant_name(tenant), &stats);
	else
		uploads_get_stats(server->uploads, &stats);
	json_member_object(json, "uploads");
	json_member_bool(json, "enabled", !server->options.symbols.no_uploads);
	write_counters(json, names,
		       (uint64_t[]){stats.files, stats.bytes, stats.open, stats.begun, stats.finished, stats.refused,
				    stats.failed, stats.bytes_received, stats.evicted, stats.contents_refused},
		       has_tenants ? 3 : sizeof(names) / sizeof(*names));
	json_end_object(json);
}

static void write_debuginfod(struct json_writer *json, struct server *server)
{
	static const char *const names[] = {"servers",	"requests",	 "found",      "missing",    "missing_cached",
					    "failures", "bytes_fetched", "cache_hits", "cache_bytes"};
	struct debuginfod_stats stats = {0};
	if (server->debuginfod)
		debuginfod_get_stats(server->debuginfod, &stats);
	json_member_object(json, "debuginfod");
	write_counters(json, names,
		       (uint64_t[]){stats.servers, stats.requests, stats.found, stats.missing, stats.missing_cached,
				    stats.failures, stats.bytes_fetched, stats.cache_hits, stats.cache_bytes},
		       server->options.tenants ? 1 : sizeof(names) / sizeof(*names));
	json_member_cstring(json, "problem", server->debuginfod_problem);
	json_end_object(json);
}

static int write_binaries(struct server *server, struct tenant *tenant, const struct symbol_status *binaries, size_t count,
			  size_t total, const size_t counts[SYMBOL_STATES], struct buffer *out, struct error *err)
{
	struct symbolizer_stats stats;
	symbolizer_get_stats(tenant->symbolizer, &stats);
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	json_member_array(&json, "binaries");
	for (size_t i = 0; i < count; i++)
		write_binary(&json, &binaries[i]);
	json_end_array(&json);
	json_member_uint(&json, "total", total);
	json_member_object(&json, "counts");
	for (size_t i = 0; i < SYMBOL_STATES; i++)
		json_member_uint(&json, symbol_state_names[i], counts[i]);
	json_end_object(&json);
	json_member_object(&json, "queue");
	write_counters(&json, (const char *const[]){"waiting", "running"}, (uint64_t[]){stats.waiting, stats.running}, 2);
	json_end_object(&json);
	write_uploads(&json, server, tenant);
	write_debuginfod(&json, server);
	json_end_object(&json);
	return json_finish(&json, err);
}

/* "missing", "missing,failed"; repeated ones add up. */
static int parse_states(const struct net_request *request, uint32_t *ret, struct error *err)
{
	const char *text;
	*ret = 0;
	for (size_t n = 0; (text = net_request_query_nth(request, "state", n)); n++) {
		while (*text) {
			size_t len = strcspn(text, ","), i = 0;
			while (i < SYMBOL_STATES &&
			       (strlen(symbol_state_names[i]) != len || strncmp(symbol_state_names[i], text, len) != 0))
				i++;
			if (i == SYMBOL_STATES)
				return error_set(err, -EINVAL,
						 "parameter 'state': '%.40s' is not one of queued, working, complete, partial, "
						 "missing, failed",
						 text);
			*ret |= 1u << i;
			text += len + (text[len] == ',');
		}
	}
	return 0;
}

static int parse_count(const struct net_request *request, const char *name, uint64_t fallback, uint64_t max, size_t *ret,
		       struct error *err)
{
	uint64_t value = fallback;
	const char *text = net_request_query(request, name);
	int r = text ? text_parse_u64(text, &value, err) : 0;
	if (r < 0) {
		error_prefix(err, r, "parameter '%s'", name);
		return -EINVAL; /* also for a number that is out of range, which is no conflict */
	}
	*ret = value > max ? max : value;
	return 0;
}

static int list_binaries(struct server *server, const struct net_request *request, struct buffer *out, struct error *err)
{
	struct symbol_list_options options = {.text = net_request_query(request, "text")};
	_cleanup_(mem_freep) struct symbol_status *binaries = NULL;
	size_t count = 0, total = 0, counts[SYMBOL_STATES] = {0};
	struct tenant *tenant;
	int r = tenant_of_request(server, request, false, &tenant, err);
	if (!r)
		r = parse_states(request, &options.states, err);
	if (!r)
		r = parse_count(request, "limit", BINARIES_DEFAULT, BINARIES_LIMIT, &options.limit, err);
	if (!r)
		r = parse_count(request, "offset", 0, UINT32_MAX, &options.offset, err);
	bool none = options.limit == 0; /* only the counts */
	if (none)
		options.limit = 1;
	if (!r)
		r = symbolizer_list(tenant->symbolizer, &options, &binaries, &count, &total, counts, err);
	return r < 0 ? r : write_binaries(server, tenant, binaries, none ? 0 : count, total, counts, out, err);
}

void api_binaries(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	int r = list_binaries(context, request, &response->body, &err);
	if (r < 0)
		respond_failure(response, r, NULL, &err);
}

/* POST /api/v1/binaries/BUILDID/retry */
void api_binary_retry(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	struct tenant *tenant;
	char build_id[BUILD_ID_HEX_MAX];
	const char *name = net_request_path(request) + strlen(BINARIES_PATH), *slash = strchr(name, '/');
	if (!slash || strcmp(slash, "/retry") != 0 || slash - name >= (ptrdiff_t)sizeof(build_id)) {
		respond_error(response, 404, "no such path; did you mean POST " BINARIES_PATH "BUILDID/retry?");
		return;
	}
	snprintf(build_id, sizeof(build_id), "%.*s", (int)(slash - name), name);
	int r = build_id_is_valid(build_id) ? tenant_of_request(context, request, false, &tenant, &err)
					    : error_set(&err, -EINVAL, "not a build-id");
	if (!r)
		r = symbolizer_retry(tenant->symbolizer, build_id, &err);
	respond_done(response, r, NULL, &err);
}

/* ---- whose ---- */

int debuginfo_call_init(struct server *server, const struct net_request *request, struct debuginfo_call *ret, struct error *err)
{
	const char *name = server->options.tenants ? tenant_name_of_request(request) : NULL;
	struct tenant *tenant = NULL;
	ret->server = server;
	int r = name ? tenant_name_check(name, err) : 0;
	if (r < 0)
		return error_prefix(err, -EINVAL, "debug information");
	bool is_default = !name || strcmp(name, TENANT_DEFAULT) == 0;
	snprintf(ret->tenant, sizeof(ret->tenant), "%s", is_default ? "" : name);
	symbols_scope_init(server, ret->tenant, &ret->symbols);
	r = tenant_by_name(server, name, false, &tenant, err);
	ret->symbolizer = tenant ? tenant->symbolizer : NULL;
	return r == -ENOENT ? 0 : r;
}

bool debuginfo_symbols_are_wanted(struct debuginfo_call *call, const char *build_id, const char *path, bool *ret_later)
{
	if (call->symbolizer)
		return symbolizer_wants(call->symbolizer, build_id, path, ret_later);
	*ret_later = true;
	return false;
}

/* ---- what is wanted ---- */

static int parse_kind(const char *text, enum upload_kind *ret)
{
	int i = text_find_name(upload_kind_names, UPLOAD_KINDS, text);
	if (i >= 0)
		*ret = (enum upload_kind)i;
	return i < 0 ? i : 0;
}

bool debuginfo_is_state(struct debuginfo_call *call, const char *build_id, uint32_t states)
{
	_cleanup_(mem_freep) struct symbol_status *binaries = NULL;
	struct symbol_list_options options = {.states = states, .text = build_id, .limit = 16};
	size_t count = 0, total;
	if (!call->symbolizer || symbolizer_list(call->symbolizer, &options, &binaries, &count, &total, NULL, NULL) < 0)
		return false;
	for (size_t i = 0; i < count; i++)
		if (strcmp(binaries[i].build_id, build_id) == 0)
			return true;
	return false;
}

/* Agents leave the names of a kernel's functions out once its list is not wanted: only when there is a table of it. A list that
 * is there and could not be made into one is no reason. */
static enum debuginfo_want wants_kernel(struct debuginfo_call *call, const char *build_id, const char *path)
{
	struct uploads *uploads = call->server->uploads;
	const struct uploads_scope *scope = &call->symbols.scope;
	bool later = false;
	if (call->symbolizer && symbolizer_names_kernel(call->symbolizer, build_id))
		return DEBUGINFO_NOT_WANTED;
	if (uploads_has(uploads, scope, build_id, UPLOAD_KALLSYMS) ||
	    uploads_is_coming(uploads, scope, build_id, UPLOAD_KALLSYMS, NULL))
		return DEBUGINFO_LATER;
	bool wanted = debuginfo_symbols_are_wanted(call, build_id, path, &later);
	return wanted || !later ? DEBUGINFO_WANTED : DEBUGINFO_LATER;
}

/* Of a binary that is not the only one of its id. */
static enum debuginfo_want wants_content(struct debuginfo_call *call, const struct debuginfo_binary *binary)
{
	bool later = false;
	bool wanted = symbolizer_wants_content(call->symbolizer, binary->build_id, binary->content, binary->path, &later);
	return wanted ? DEBUGINFO_WANTED : later ? DEBUGINFO_LATER : DEBUGINFO_NOT_WANTED;
}

/*
 * Programs and sources are never asked for: what of its code leaves a machine is for people to decide. Where agents have told
 * of several binaries of an id, each is asked for, however well one of them is known: whose code it is that a profile speaks of
 * is not told.
 */
enum debuginfo_want debuginfo_wants(struct debuginfo_call *call, const struct debuginfo_binary *binary, enum upload_kind kind)
{
	struct uploads *uploads = call->server->uploads;
	const struct uploads_scope *scope = &call->symbols.scope;
	const char *id = binary->build_id, *content = binary->content;
	bool later = false;
	if (call->server->options.symbols.no_uploads || (kind != UPLOAD_DEBUGINFO && kind != UPLOAD_KALLSYMS))
		return DEBUGINFO_NOT_WANTED;
	if (kind == UPLOAD_KALLSYMS)
		return wants_kernel(call, id, binary->path);
	enum symbol_contents contents = *content && call->symbolizer
						? symbolizer_note_content(call->symbolizer, id, content, binary->path)
						: SYMBOL_CONTENT_ONLY;
	bool is_only = contents == SYMBOL_CONTENT_ONLY;
	if (contents == SYMBOL_CONTENT_TOO_MANY ||
	    (is_only ? uploads_has(uploads, scope, id, kind) : uploads_has_content(uploads, scope, id, kind, content)))
		return DEBUGINFO_NOT_WANTED;
	if (uploads_is_coming(uploads, scope, id, kind, is_only ? NULL : content))
		return DEBUGINFO_LATER;
	if (!is_only)
		return wants_content(call, binary);
	bool wanted = debuginfo_symbols_are_wanted(call, id, binary->path, &later);
	return wanted ? DEBUGINFO_WANTED : later ? DEBUGINFO_LATER : DEBUGINFO_NOT_WANTED;
}

struct wanted {
	struct json_writer wanted, later;
	struct buffer later_text;
};

/* With what the client has said of it, so that it knows which one is meant. id_type NULL: nothing. */
static void write_wanted(struct wanted *wanted, struct debuginfo_call *call, const struct debuginfo_binary *binary,
			 const char *id_type, const char *name)
{
	enum upload_kind kind;
	if (parse_kind(name, &kind) < 0)
		return;
	enum debuginfo_want want = debuginfo_wants(call, binary, kind);
	if (want == DEBUGINFO_NOT_WANTED)
		return;
	struct json_writer *json = want == DEBUGINFO_WANTED ? &wanted->wanted : &wanted->later;
	json_begin_object(json);
	json_member_cstring(json, "build_id", binary->build_id);
	if (id_type)
		json_member_cstring(json, "id_type", id_type);
	if (*binary->content)
		json_member_cstring(json, "content", binary->content);
	json_member_cstring(json, "kind", name);
	json_end_object(json);
}

/* "" where the client says nothing. */
static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

/* False also for 0, which says nothing. */
static bool parse_code(const char *text, uint64_t *ret)
{
	size_t len = strlen(text);
	if (len != 16 || strspn(text, "0123456789abcdef") != len)
		return false;
	*ret = strtoull(text, NULL, 16);
	return *ret != 0;
}

static void ask_for(struct wanted *wanted, struct debuginfo_call *call, const json_t *asked)
{
	const struct debuginfo_binary binary = {
		.build_id = text_of(asked, "build_id"), .content = text_of(asked, "content"), .path = text_of(asked, "path")};
	const char *type = text_of(asked, "id_type");
	const json_t *kinds = json_object_get(asked, "kinds");
	enum file_id_type id_type;
	uint64_t code;
	/* One that cannot be helped must not keep the others from being answered. */
	if (!build_id_is_valid(binary.build_id) || (*binary.content && !content_key_is_valid(binary.content)))
		return;
	if (!file_id_type_parse(type, &id_type))
		type = NULL;
	/* Also by those that send nothing, or may not. */
	bool has_symbols = call->symbolizer != NULL;
	bool sends_nothing = call->server->options.symbols.no_uploads || (kinds && json_array_size(kinds) == 0);
	if (*binary.content && has_symbols && sends_nothing)
		symbolizer_note_content(call->symbolizer, binary.build_id, binary.content, binary.path);
	if (!kinds)
		write_wanted(wanted, call, &binary, type, upload_kind_names[UPLOAD_DEBUGINFO]);
	for (size_t i = 0; i < json_array_size(kinds) && i < KINDS_MAX; i++) {
		const char *name = json_string_value(json_array_get(kinds, i));
		if (name)
			write_wanted(wanted, call, &binary, type, name);
	}
	if (*binary.content && has_symbols && parse_code(text_of(asked, "code"), &code))
		symbolizer_note_code(call->symbolizer, binary.build_id, binary.content, code);
}

static int answer_wanted(struct debuginfo_call *call, const json_t *binaries, struct buffer *out, struct error *err)
{
	_cleanup_(buffer_release) struct buffer later = {.max = out->max};
	struct wanted wanted;
	wanted.later = (struct json_writer){.out = &later};
	json_begin_array(&wanted.later);
	wanted.wanted = (struct json_writer){.out = out};
	json_begin_object(&wanted.wanted);
	json_member_bool(&wanted.wanted, "enabled", !call->server->options.symbols.no_uploads);
	json_member_uint(&wanted.wanted, "retry_after_s", WANTED_RETRY_S);
	json_member_array(&wanted.wanted, "wanted");
	for (size_t i = 0; i < json_array_size(binaries); i++)
		ask_for(&wanted, call, json_array_get(binaries, i));
	json_end_array(&wanted.wanted);
	json_end_array(&wanted.later);
	int r = json_finish(&wanted.later, err);
	if (r < 0)
		return r;
	json_end_object(&wanted.wanted);
	r = json_finish(&wanted.wanted, err);
	if (r < 0)
		return r;
	out->len--; /* the object goes on with what was written meanwhile */
	if (buffer_append_string(out, ",\"later\":") < 0 || buffer_append(out, later.data, later.len) < 0 ||
	    buffer_append_byte(out, '}') < 0)
		return error_nomem(err);
	return 0;
}

static json_t *read_body(const struct net_request *request, struct error *err)
{
	json_error_t problem;
	struct bytes body = net_request_body(request);
	json_t *json = json_loadb(body.len ? (const char *)body.data : "", body.len, JSON_REJECT_DUPLICATES, &problem);
	if (json && json_is_object(json))
		return json;
	error_set(err, -EINVAL, "the body must be a JSON object%s%.200s", json ? "" : ": ", json ? "" : problem.text);
	json_decref(json);
	return NULL;
}

void api_debuginfo_wanted(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	struct debuginfo_call call;
	_cleanup_(json_decrefp) json_t *body = read_body(request, &err);
	const json_t *binaries = json_object_get(body, "binaries");
	int r = body ? 0 : -EINVAL;
	if (!r && !json_is_array(binaries))
		r = error_set(&err, -EINVAL, "'binaries' must be a list");
	if (!r && json_array_size(binaries) > WANTED_MAX)
		r = error_set(&err, -EINVAL, "'binaries' has more than %d entries; split it into several requests", WANTED_MAX);
	if (!r)
		r = debuginfo_call_init(context, request, &call, &err);
	if (!r)
		r = answer_wanted(&call, binaries, &response->body, &err);
	if (r < 0)
		respond_failure(response, r, NULL, &err);
}

/* ---- uploads ---- */

static int copy_text(char *out, size_t size, const json_t *object, const char *name, struct error *err)
{
	const json_t *value = json_object_get(object, name);
	const char *text = value ? json_string_value(value) : "";
	if (!text || strlen(text) >= size)
		return error_set(err, -EINVAL, "'%s' must be a string of at most %zu characters", name, size - 1);
	snprintf(out, size, "%s", text);
	return 0;
}

static int parse_begin(const json_t *body, struct upload_begin *begin, struct error *err)
{
	char kind[16] = "", type[8] = "";
	const json_t *size = json_object_get(body, "size");
	int r = copy_text(begin->build_id, sizeof(begin->build_id), body, "build_id", err);
	if (!r)
		r = copy_text(begin->hash, sizeof(begin->hash), body, "hash", err);
	if (!r)
		r = copy_text(kind, sizeof(kind), body, "kind", err);
	if (!r)
		r = copy_text(begin->content_key, sizeof(begin->content_key), body, "content", err);
	if (!r)
		r = copy_text(type, sizeof(type), body, "id_type", err);
	if (!r && *type && !file_id_type_parse(type, &begin->id_type))
		r = error_set(err, -EINVAL, "'id_type' is not one of gnu, hash, go");
	if (!r && *kind && parse_kind(kind, &begin->kind) < 0)
		r = error_set(err, -EINVAL, "'kind' is not one of debuginfo, executable, sources, kallsyms");
	if (!r && (!json_is_integer(size) || json_integer_value(size) <= 0))
		r = error_set(err, -EINVAL, "'size' must be the number of bytes to upload");
	if (r < 0)
		return r;
	begin->size = (uint64_t)json_integer_value(size);
	begin->force = json_is_true(json_object_get(body, "force"));
	begin->without_build_id = json_is_true(json_object_get(body, "without_build_id"));
	return 0;
}

static int check_enabled(const struct server *server, struct error *err)
{
	if (!server->options.symbols.no_uploads)
		return 0;
	return error_set(err, -EACCES,
			 "this server accepts no debug information (symbols.uploads.enabled in its configuration)");
}

/*
 * What is there may be worth little: an agent has sent a stripped program's names before somebody sends its debug information.
 * So a different file is taken as long as something is missing.
 */
static int begin_or_replace(struct debuginfo_call *call, const struct upload_begin *begin, char id[static UPLOAD_ID_MAX],
			    uint64_t *offset, struct error *err)
{
	const uint32_t lacking = 1u << SYMBOL_PARTIAL | 1u << SYMBOL_MISSING | 1u << SYMBOL_FAILED;
	struct uploads *uploads = call->server->uploads;
	const char *tenants[] = {begin->tenant};
	const struct uploads_scope own = {.tenants = tenants, .count = 1};
	int r = uploads_begin(uploads, begin, id, offset, err);
	if (r != -EEXIST || begin->kind != UPLOAD_DEBUGINFO || !*begin->hash ||
	    uploads_has_same(uploads, &own, begin->build_id, begin->kind, begin->hash) ||
	    !debuginfo_is_state(call, begin->build_id, lacking))
		return r;
	struct upload_begin replacing = *begin;
	replacing.force = true;
	if (uploads_is_coming(uploads, &own, begin->build_id, begin->kind, NULL))
		return error_set(err, -EBUSY, "another client is uploading this file");
	return uploads_begin(uploads, &replacing, id, offset, err);
}

int debuginfo_find_upload(struct server *server, const struct net_request *request, const char *id, struct upload_begin *ret,
			  uint64_t *ret_offset, struct error *err)
{
	struct debuginfo_call call;
	int r = debuginfo_call_init(server, request, &call, err);
	if (r < 0)
		return r;
	r = uploads_get(server->uploads, id, ret, ret_offset, err);
	if (r == 0 && strcmp(call.tenant, ret->tenant) != 0)
		r = uploads_get(server->uploads, "", ret, ret_offset, err); /* as for one that is not there */
	return r;
}

static int check_owner(struct server *server, const struct net_request *request, const char *id, struct error *err)
{
	struct upload_begin begin;
	uint64_t offset;
	return debuginfo_find_upload(server, request, id, &begin, &offset, err);
}

void api_upload_begin(void *context, const struct net_request *request, struct net_response *response)
{
	struct debuginfo_call call;
	struct upload_begin begin = {0};
	struct error err = {0};
	char id[UPLOAD_ID_MAX];
	uint64_t offset = 0;
	_cleanup_(json_decrefp) json_t *body = read_body(request, &err);
	int r = body ? parse_begin(body, &begin, &err) : -EINVAL;
	if (!r)
		r = check_enabled(context, &err);
	if (!r)
		r = debuginfo_call_init(context, request, &call, &err);
	if (!r) {
		memcpy(begin.tenant, call.tenant, sizeof(begin.tenant));
		r = begin_or_replace(&call, &begin, id, &offset, &err);
	}
	if (r < 0) {
		respond_failure(response, r, NULL, &err);
		return;
	}
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	json_member_cstring(&json, "id", id);
	write_counters(&json, (const char *const[]){"offset"}, &offset, 1);
	json_end_object(&json);
	response->status = 201;
	if (json_finish(&json, &err) < 0)
		respond_error(response, 503, err.message);
}

/* "ID" or "ID/VERB" behind the prefix; ids that are none are found by nobody. */
static void split_path(const struct net_request *request, char id[static UPLOAD_ID_MAX], const char **ret_verb)
{
	const char *name = net_request_path(request) + strlen(UPLOADS_PATH), *slash = strchr(name, '/');
	size_t len = slash ? (size_t)(slash - name) : strlen(name);
	snprintf(id, UPLOAD_ID_MAX, "%.*s", len < UPLOAD_ID_MAX ? (int)len : 0, name);
	*ret_verb = slash ? slash + 1 : NULL;
}

static void respond_offset(struct net_response *response, uint64_t offset)
{
	if (buffer_printf(&response->body, "{\"offset\":%llu}", (unsigned long long)offset) < 0)
		respond_error(response, 503, "out of memory");
}

void api_upload_write(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct error err = {0};
	char id[UPLOAD_ID_MAX];
	const char *verb, *text = net_request_query(request, "offset");
	uint64_t offset = 0, next = 0;
	split_path(request, id, &verb);
	int r = verb ? error_set(&err, -ENOENT, "no such path") : check_enabled(server, &err);
	if (!r && (!text || text_parse_u64(text, &offset, NULL) < 0))
		r = error_set(&err, -EINVAL, "parameter 'offset': the start of this part is missing or not a number");
	if (!r)
		r = check_owner(server, request, id, &err);
	if (!r)
		r = uploads_write(server->uploads, id, offset, net_request_body(request), &next, &err);
	if (r < 0)
		respond_failure(response, r, r == -ERANGE ? &next : NULL, &err);
	else
		respond_offset(response, next);
}

/* POST .../ID/finish */
void api_upload_finish(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct error err = {0};
	struct upload_begin begin;
	char id[UPLOAD_ID_MAX];
	const char *verb;
	uint64_t offset = 0;
	split_path(request, id, &verb);
	int r = verb && strcmp(verb, "finish") == 0 ? check_enabled(server, &err) : error_set(&err, -ENOENT, "no such path");
	if (!r)
		r = check_owner(server, request, id, &err);
	if (!r)
		r = uploads_finish(server->uploads, id, &err);
	if (r == -ERANGE)
		uploads_get(server->uploads, id, &begin, &offset, NULL);
	respond_done(response, r, r == -ERANGE ? &offset : NULL, &err);
}

void api_upload_abort(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct error err = {0};
	char id[UPLOAD_ID_MAX];
	const char *verb;
	split_path(request, id, &verb);
	int r = verb ? error_set(&err, -ENOENT, "no such path") : check_owner(server, request, id, &err);
	if (!r)
		r = uploads_abort(server->uploads, id, &err);
	respond_done(response, r, NULL, &err);
}
