/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.v1.SettingsService (github.com/grafana/pyroscope, api/settings/v1/setting.proto), in which Grafana's pages keep what
 * their users chose: names and texts, a tenant's own.
 *
 *   Get     {}                                     ->  1 settings { 1 name  2 value  3 modifiedAt }, by name
 *   Set     1 setting                              ->  1 setting
 *   Delete  1 name                                 ->  {}
 *
 * modifiedAt is in milliseconds; 0 is now. What is older than what is there is refused (ALREADY_EXISTS): of two pages that
 * write at a time the later one wins, in whatever order they arrive.
 *
 * They are a file of the tenant's directory, settings.json: the answer to Get in protobuf's JSON, read and written whole, since
 * it is small and rarely asked for. It is replaced at once, so that a crash leaves the old one or the new one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"
#include "codec/protobuf.h"
#include "server/http/rpc.h"
#include "server/pyroscope/messages.h"

#define SETTINGS_FILE  "settings.json"
#define SETTINGS_MAX   256
#define NAME_BYTES_MAX 256
#define VALUE_MAX      (64 * KIB)
#define TOTAL_MAX      MIB	 /* of all of a tenant */
#define FILE_MAX       (8 * MIB) /* escapes make it longer */

struct setting {
	struct bytes name, value;
	int64_t modified_ms;
};
struct settings {
	struct buffer binary; /* what items point into */
	struct setting items[SETTINGS_MAX];
	size_t count;
};

static void settings_release(struct settings *settings)
{
	buffer_release(&settings->binary);
}

static int parse_setting(struct pb_cursor *outer, struct bytes message, struct setting *ret, struct error *err)
{
	struct pb_field field;
	int r;
	*ret = (struct setting){0};
	struct pb_cursor cursor = pb_open_nested(outer, message);
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number == 1 && field.wire == PB_BYTES)
			ret->name = field.bytes;
		else if (field.number == 2 && field.wire == PB_BYTES)
			ret->value = field.bytes;
		else if (field.number == 3 && field.wire == PB_VARINT)
			ret->modified_ms = (int64_t)field.value;
	}
	return r;
}

static int parse_all(struct settings *settings, struct error *err)
{
	struct pb_field field;
	struct pb_cursor cursor = pb_open(buffer_bytes(&settings->binary));
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number != 1 || field.wire != PB_BYTES)
			continue;
		if (settings->count == SETTINGS_MAX)
			return error_set(err, -EBADMSG, "more than %d settings", SETTINGS_MAX);
		r = parse_setting(&cursor, field.bytes, &settings->items[settings->count], err);
		if (r < 0)
			return r;
		settings->count++;
	}
	return r;
}

static int load(const char *path, struct settings *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	struct error why = {0};
	*ret = (struct settings){.binary.max = FILE_MAX};
	int r = io_read_file(path, FILE_MAX, &text, &why);
	if (r == -ENOENT)
		return 0;
	if (!r)
		r = pb_json_to_binary(buffer_bytes(&text), &pyroscope_settings_answer, &ret->binary, &why);
	if (!r)
		r = parse_all(ret, &why);
	/* What is broken here is the server's file, not the request. */
	return r < 0 ? error_set(err, -EIO, "%s: %s", path, why.message) : 0;
}

static int write_setting(struct buffer *out, const struct setting *setting)
{
	size_t mark;
	pb_begin(out, 1, &mark);
	pb_write_bytes(out, 1, setting->name.data, setting->name.len);
	if (setting->value.len)
		pb_write_bytes(out, 2, setting->value.data, setting->value.len);
	if (setting->modified_ms)
		pb_write_varint(out, 3, (uint64_t)setting->modified_ms);
	return pb_end(out, mark);
}

static int too_large(int r, struct error *err)
{
	return r == -E2BIG ? error_set(err, -EDQUOT, "all settings together have more than %llu bytes",
				       (unsigned long long)TOTAL_MAX)
	       : r < 0	   ? error_nomem(err)
			   : 0;
}

static int save(const char *path, const struct settings *settings, struct error *err)
{
	_cleanup_(buffer_release) struct buffer binary = {.max = TOTAL_MAX}, text = {.max = FILE_MAX};
	for (size_t i = 0; i < settings->count; i++)
		write_setting(&binary, &settings->items[i]);
	int r = too_large(buffer_status(&binary), err);
	if (r < 0)
		return r;
	r = pb_json_from_binary(buffer_bytes(&binary), &pyroscope_settings_answer, &text, err);
	return r < 0 ? r : io_write_file(path, text.data, text.len, 0640, err);
}

/* Where a setting of this name is, or would be. */
static bool find(const struct settings *settings, struct bytes name, size_t *ret)
{
	int order = -1;
	for (*ret = 0; *ret < settings->count; ++*ret) {
		order = bytes_compare(settings->items[*ret].name, name);
		if (order >= 0)
			break;
	}
	return order == 0;
}

static int check_newer(struct rpc_call *call, const struct setting *old, int64_t modified_ms, struct error *err)
{
	if (old->modified_ms <= modified_ms)
		return 0;
	call->code = GRPC_ALREADY_EXISTS;
	return error_set(err, -EINVAL, "setting '%.*s': a newer value exists", (int)old->name.len,
			 (const char *)old->name.data);
}

static int check_setting(const struct setting *setting, struct error *err)
{
	if (setting->name.len == 0)
		return error_set(err, -EINVAL, "no setting values provided: the setting has no name");
	if (setting->name.len > NAME_BYTES_MAX || setting->value.len > VALUE_MAX)
		return error_set(err, -EINVAL, "a setting's name may have at most %d bytes, its value %llu", NAME_BYTES_MAX,
				 (unsigned long long)VALUE_MAX);
	if (!text_is_utf8(setting->name) || !text_is_utf8(setting->value))
		return error_set(err, -EINVAL, "the setting is not UTF-8");
	return 0;
}

/* ---- the calls ---- */

static int put_setting(struct rpc_call *call, const char *path, const struct setting *setting, struct error *err)
{
	_cleanup_(settings_release) struct settings settings = {0};
	size_t at;
	int r = load(path, &settings, err);
	if (r < 0)
		return r;
	if (find(&settings, setting->name, &at)) {
		r = check_newer(call, &settings.items[at], setting->modified_ms, err);
	} else if (settings.count == SETTINGS_MAX) {
		r = error_set(err, -EDQUOT, "the limit of %d settings is reached", SETTINGS_MAX);
	} else {
		memmove(&settings.items[at + 1], &settings.items[at], (settings.count - at) * sizeof(*settings.items));
		settings.count++;
	}
	if (r < 0)
		return r;
	settings.items[at] = *setting;
	return save(path, &settings, err);
}

static int remove_setting(struct rpc_call *call, const char *path, struct bytes name, struct error *err)
{
	_cleanup_(settings_release) struct settings settings = {0};
	size_t at;
	int r = load(path, &settings, err);
	if (r < 0 || !find(&settings, name, &at))
		return r;
	r = check_newer(call, &settings.items[at], time_now_ns() / NS_PER_MS, err);
	if (r < 0)
		return r;
	settings.count--;
	memmove(&settings.items[at], &settings.items[at + 1], (settings.count - at) * sizeof(*settings.items));
	return save(path, &settings, err);
}

/* The tenant of the call and its file; a tenant without data has no place for settings. */
static int find_file(struct rpc_call *call, struct tenant **ret, char *path, size_t size, struct error *err)
{
	int r = tenant_of_request(call->server, call->request, false, ret, err);
	return r < 0 ? r : tenant_path(call->server, *ret, SETTINGS_FILE, path, size, err);
}

static int handle_get(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	_cleanup_(settings_release) struct settings settings = {0};
	char path[PATH_BYTES_MAX];
	struct tenant *tenant;
	int r = find_file(call, &tenant, path, sizeof(path), err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	pthread_mutex_lock(&tenant->settings_lock);
	r = load(path, &settings, err);
	pthread_mutex_unlock(&tenant->settings_lock);
	for (size_t i = 0; !r && i < settings.count; i++)
		r = too_large(write_setting(out, &settings.items[i]), err);
	return r;
}

static int handle_set(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	struct setting setting = {0};
	struct pb_field field;
	char path[PATH_BYTES_MAX];
	struct tenant *tenant;
	struct pb_cursor cursor = pb_open(request);
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0)
		if (field.number == 1 && field.wire == PB_BYTES && (r = parse_setting(&cursor, field.bytes, &setting, err)) < 0)
			return r;
	if (!r)
		r = check_setting(&setting, err);
	if (!r)
		r = find_file(call, &tenant, path, sizeof(path), err);
	if (r < 0)
		return r;
	if (setting.modified_ms <= 0)
		setting.modified_ms = time_now_ns() / NS_PER_MS;
	pthread_mutex_lock(&tenant->settings_lock);
	r = put_setting(call, path, &setting, err);
	pthread_mutex_unlock(&tenant->settings_lock);
	return r < 0 ? r : too_large(write_setting(out, &setting), err);
}

static int handle_delete(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	struct bytes name;
	char path[PATH_BYTES_MAX];
	struct tenant *tenant;
	int r = pb_find_bytes(NULL, request, 1, &name, err);
	if (!r && !name.len)
		r = error_set(err, -EINVAL, "no setting name provided");
	if (!r)
		r = find_file(call, &tenant, path, sizeof(path), err);
	if (r < 0)
		return r;
	THREAD_LOCK_SCOPE(&tenant->settings_lock);
	r = remove_setting(call, path, name, err);
	return r;
}

#define SETTINGS "/settings.v1.SettingsService/"
const struct rpc_method rpc_pyroscope_settings[] = {
	{SETTINGS "Get", PERMIT_READ, &pyroscope_empty, &pyroscope_settings_answer, handle_get, RPC_READ_ONLY},
	{SETTINGS "Set", PERMIT_ADMIN, &pyroscope_setting_message, &pyroscope_setting_message, handle_set, 0},
	{SETTINGS "Delete", PERMIT_ADMIN, &pyroscope_setting_name, &pyroscope_empty, handle_delete, 0},
	{0},
};
