/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On disk: DIRECTORY/ID/recording.json, the request, its hosts and which failed, and a file for each host that sent one. The
 * files tell by themselves what they are, so what recording.json lacks, or all of it, comes from them.
 */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"
#include "codec/json.h"
#include "server/stores/recordings_int.h"

#define INDEX_NAME	"recording.json"
#define INDEX_BYTES_MAX (4u << 20)

void recordings_set_aside(struct recordings *recordings, const char *path, const char *why)
{
	recordings->stats.torn++;
	noted_set_aside(&recordings->options.problems, path, why);
}

/* ---- writing ---- */

static void write_host(struct json_writer *json, const struct entry_host *entry)
{
	const struct recording_host *host = &entry->shown;
	json_begin_object(json);
	json_member_cstring(json, "name", host->name);
	json_member_cstring(json, "agent", host->agent);
	json_member_cstring(json, "state", recording_state_names[host->state]);
	json_member_cstring(json, "why", host->why);
	json_member_cstring(json, "key", entry->key);
	json_end_object(json);
}

int recordings_write_index(const struct entry *entry, struct buffer *out, struct error *err)
{
	out->max = INDEX_BYTES_MAX;
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	json_member_int(&json, "version", 1);
	json_member_int(&json, "created_ns", entry->created_ns);
	json_member_object(&json, "order");
	control_write_recording_request(&json, &entry->request);
	json_end_object(&json);
	json_member_array(&json, "hosts");
	for (size_t i = 0; i < entry->host_count; i++)
		write_host(&json, &entry->hosts[i]);
	json_end_array(&json);
	json_end_object(&json);
	return json_finish(&json, err);
}

int recordings_save_index(const struct recordings *recordings, const char *id, struct bytes text, struct error *err)
{
	char path[PATH_MAX];
	int r = recordings_path(recordings, id, "", path, err);
	if (r == 0)
		r = io_make_dirs(path, 0750, err);
	if (r == 0)
		r = io_sync_dir(recordings->directory, err);
	if (r == 0)
		r = recordings_path(recordings, id, INDEX_NAME, path, err);
	return r < 0 ? r : io_write_file(path, text.data, text.len, 0640, err);
}

/* ---- reading ---- */

static bool read_host(const json_t *node, struct entry_host *entry)
{
	struct recording_host *ret = &entry->shown;
	const char *name = json_string_value(json_object_get(node, "name")),
		   *agent = json_string_value(json_object_get(node, "agent")),
		   *why = json_string_value(json_object_get(node, "why")),
		   *key = json_string_value(json_object_get(node, "key"));
	if (!name || !control_host_is_valid(name) || !agent || (*agent && !control_id_is_valid(agent)) || !why ||
	    recording_state_parse(json_string_value(json_object_get(node, "state")), &ret->state) < 0)
		return false;
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	snprintf(ret->agent, sizeof(ret->agent), "%s", agent);
	snprintf(ret->why, sizeof(ret->why), "%s", why);
	if (key && control_id_is_valid(key))
		snprintf(entry->key, sizeof(entry->key), "%s", key);
	if (ret->state == RECORDING_DONE) /* the file says so, or it is not */
		ret->state = RECORDING_WAITING;
	return true;
}

static struct entry *parse_index(struct bytes text)
{
	_cleanup_(json_decrefp) json_t *root = json_loadb((const char *)text.data, text.len, 0, NULL);
	const json_t *hosts = json_object_get(root, "hosts"), *created = json_object_get(root, "created_ns");
	size_t count = json_array_size(hosts);
	struct entry *entry = mem_zalloc(sizeof(*entry));
	bool is_sound = entry && count <= RECORDING_HOSTS_MAX && json_is_integer(created) && json_integer_value(created) >= 0 &&
			control_read_recording_request(json_object_get(root, "order"), &entry->request, NULL) == 0;
	if (is_sound)
		entry->hosts = mem_zalloc_array(count + 1, sizeof(*entry->hosts));
	is_sound = is_sound && entry->hosts;
	for (size_t i = 0; is_sound && i < count; i++)
		is_sound = read_host(json_array_get(hosts, i), &entry->hosts[entry->host_count++]);
	if (is_sound)
		entry->created_ns = json_integer_value(created);
	return is_sound ? entry : entry_free(entry);
}

/* NULL when there is none; one that makes no sense is set aside. */
static struct entry *read_index(struct recordings *recordings, const char *id)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	char path[PATH_MAX];
	struct error err = {0};
	if (recordings_path(recordings, id, INDEX_NAME, path, NULL) < 0)
		return NULL;
	int r = io_read_file(path, INDEX_BYTES_MAX, &text, &err);
	struct entry *entry = r == 0 ? parse_index(buffer_bytes(&text)) : NULL;
	if (entry && strcmp(entry->request.id, id) != 0)
		entry = entry_free(entry);
	if (!entry && r != -ENOENT)
		recordings_set_aside(recordings, path, r < 0 ? err.message : "malformed content");
	return entry;
}

static struct entry_host *add_host(struct entry *entry, const char *name)
{
	if (entry->host_count >= RECORDING_HOSTS_MAX)
		return NULL;
	struct entry_host *hosts = mem_realloc_array(entry->hosts, entry->host_count + 1, sizeof(*hosts));
	if (!hosts)
		return NULL;
	entry->hosts = hosts;
	struct entry_host *host = &hosts[entry->host_count++];
	*host = (struct entry_host){0};
	snprintf(host->shown.name, sizeof(host->shown.name), "%s", name);
	return host;
}

static void take_file(struct recordings *recordings, struct entry *entry, const char *id, const char *name)
{
	char path[PATH_MAX], expected[RECORDING_NAME_SIZE];
	struct recording_file file;
	struct error err = {0};
	uint64_t size = 0;
	if (recordings_path(recordings, id, name, path, NULL) < 0)
		return;
	int r = noted_look(&recording_form, path, &file, &size, &err);
	if (r == 0) {
		recording_file_name(file.host, expected);
		if (strcmp(file.id, id) != 0 || strcmp(expected, name) != 0)
			r = error_set(&err, -EBADMSG, "it belongs to another recording or host");
	}
	if (r < 0) {
		recordings_set_aside(recordings, path, err.message);
		return;
	}
	struct entry_host *host = entry_host_find(entry, file.host);
	if (!host)
		host = add_host(entry, file.host);
	if (!host)
		return;
	if (!entry->request.id[0]) { /* there was no index */
		memcpy(entry->request.id, file.id, sizeof(file.id));
		entry->request.start_ns = file.start_ns;
		entry->request.duration_ns = file.duration_ns;
		entry->created_ns = file.start_ns;
	}
	host->shown.state = RECORDING_DONE;
	host->shown.why[0] = 0;
	host->shown.bytes = size;
	host->shown.plain_bytes = file.plain_bytes;
	host->shown.clock = file.clock;
	entry->bytes += size;
}

static int load_one(struct recordings *recordings, const char *id, struct error *err)
{
	char path[PATH_MAX];
	int r = recordings_path(recordings, id, "", path, err);
	_cleanup_(dir_closep) DIR *directory = r == 0 ? opendir(path) : NULL;
	const struct dirent *file;
	if (!directory)
		return r;
	struct entry *entry = read_index(recordings, id);
	if (!entry)
		entry = mem_zalloc(sizeof(*entry));
	while (entry && (file = readdir(directory))) {
		char below[PATH_MAX];
		if (text_ends_with(file->d_name, NOTED_ENDING))
			take_file(recordings, entry, id, file->d_name);
		else if (text_ends_with(file->d_name, ".tmp") &&
			 recordings_path(recordings, id, file->d_name, below, NULL) == 0)
			io_unlink(below, NULL); /* a crash left it */
	}
	if (!entry)
		return error_nomem(err);
	if (!entry->request.id[0]) { /* neither an index nor a file */
		entry_free(entry);
		return 0;
	}
	r = recordings_add_entry(recordings, entry, err);
	if (r < 0)
		entry_free(entry);
	return r;
}

int recordings_load(struct recordings *recordings, struct error *err)
{
	const struct dirent *entry;
	int r = io_make_dirs(recordings->directory, 0750, err);
	DIR *directory = r == 0 ? opendir(recordings->directory) : NULL;
	if (r == 0 && !directory)
		r = error_set_errno(err, -errno, "cannot list %s", recordings->directory);
	while (r == 0 && (entry = readdir(directory)))
		if (control_id_is_valid(entry->d_name))
			r = load_one(recordings, entry->d_name, err);
	if (directory)
		closedir(directory);
	return r;
}
