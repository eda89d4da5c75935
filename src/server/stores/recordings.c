/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of recordings and agents is in memory, small, under one lock; files are read and written without it. Who works
 * on an entry's files counts as its user, so that removing one takes it out of the table at once, and its files when the last
 * user is done.
 *
 * Time moves states only forward: a host that said nothing until some time after the end is SILENT, and over. What it sends
 * later is taken all the same.
 */
#include "server/stores/recordings_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"

#define ID_BYTES 8

int recordings_path(const struct recordings *recordings, const char *id, const char *name, char out[static PATH_MAX],
		    struct error *err)
{
	int len = snprintf(out, PATH_MAX, "%s/%s%s%s", recordings->directory, id, *name ? "/" : "", name);
	return len < PATH_MAX ? 0 : error_set(err, -ENAMETOOLONG, "the path of the directory for recordings is too long");
}

/* ---- entries; with the lock ---- */

struct entry *entry_free(struct entry *entry)
{
	if (entry)
		mem_free(entry->hosts);
	return mem_free(entry);
}

struct entry_host *entry_host_find(struct entry *entry, const char *name)
{
	for (size_t i = 0; i < entry->host_count; i++)
		if (strcmp(entry->hosts[i].shown.name, name) == 0)
			return &entry->hosts[i];
	return NULL;
}

static size_t find_place(const struct recordings *recordings, const char *id)
{
	size_t i = 0;
	while (i < recordings->count && strcmp(recordings->entries[i]->request.id, id) != 0)
		i++;
	return i;
}

static struct entry *find(const struct recordings *recordings, const char *id)
{
	size_t i = find_place(recordings, id);
	return i < recordings->count ? recordings->entries[i] : NULL;
}

static int not_there(const char *id, struct error *err)
{
	return error_set(err, -ENOENT, "no recording '%.32s': it never existed, was cancelled, or was removed to free space",
			 id);
}

int recordings_add_entry(struct recordings *recordings, struct entry *entry, struct error *err)
{
	if (array_reserve(&recordings->entries, &recordings->capacity, recordings->count + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	size_t at = recordings->count;
	for (; at > 0 && recordings->entries[at - 1]->created_ns > entry->created_ns; at--)
		recordings->entries[at] = recordings->entries[at - 1];
	recordings->entries[at] = entry;
	recordings->count++;
	recordings->host_count += entry->host_count;
	recordings->stats.bytes += entry->bytes;
	return 0;
}

static void remove_files(struct recordings *recordings, const char *id)
{
	char path[PATH_MAX];
	struct error err = {0};
	int r = recordings_path(recordings, id, "", path, &err);
	if (r == 0)
		r = io_remove_tree(path, &err);
	if (r < 0)
		problems_report(&recordings->options.problems, err.message);
}

void recordings_leave(struct recordings *recordings, struct entry *entry)
{
	if (--entry->users || !entry->is_gone)
		return;
	remove_files(recordings, entry->request.id);
	entry_free(entry);
}

static void take_out(struct recordings *recordings, size_t place)
{
	struct entry *entry = recordings->entries[place];
	memmove(recordings->entries + place, recordings->entries + place + 1,
		(recordings->count - place - 1) * sizeof(*recordings->entries));
	recordings->count--;
	recordings->host_count -= entry->host_count;
	recordings->stats.bytes -= entry->bytes;
	entry->is_gone = true;
	entry->users++;
	recordings_leave(recordings, entry);
}

/* Until `more` bytes and hosts have room; `spare` (NULL = none) stays. */
static void make_room(struct recordings *recordings, const struct entry *spare, uint64_t more, size_t more_hosts,
		      int64_t now_ns)
{
	int64_t age_ns = recordings->options.age_ns;
	for (size_t i = 0; i < recordings->count;) {
		const struct entry *entry = recordings->entries[i];
		bool is_old = age_ns > 0 && now_ns - entry->created_ns > age_ns;
		bool is_full = recordings->stats.bytes + recordings->reserved + more > recordings->options.bytes_max ||
			       recordings->count > RECORDINGS_MAX - (more_hosts > 0) ||
			       recordings->host_count + more_hosts > RECORDINGS_HOSTS_MAX;
		if (!is_old && !is_full)
			break;
		if (entry == spare) {
			i++;
			continue;
		}
		recordings->stats.evicted++;
		take_out(recordings, i);
	}
}

/* ---- states ---- */

static bool is_final(enum recording_state state)
{
	return state >= RECORDING_DONE;
}

static void host_set(struct entry_host *host, enum recording_state state, const char *why)
{
	host->shown.state = state;
	snprintf(host->shown.why, sizeof(host->shown.why), "%s", why);
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static const struct recordings_agent *agent_of(const struct recordings *recordings, const char *id)
{
	for (size_t i = 0; i < recordings->agent_count; i++)
		if (strcmp(recordings->agents[i].poll.agent, id) == 0)
			return &recordings->agents[i];
	return NULL;
}

/* Gives up hosts whose agents have not polled for too long, or whose recordings do not end. */
static void entry_update(const struct recordings *recordings, struct entry *entry, int64_t now_ns)
{
	int64_t start_ns = entry->request.start_ns, end_ns = start_ns + entry->request.duration_ns;
	/* After a start of the server all agents need the time to ask again. */
	int64_t awake_ns = recordings->opened_ns + (entry->created_ns < recordings->opened_ns ? CONTROL_PAUSE_MAX_NS : 0);
	char why[CONTROL_TEXT_SIZE];
	for (size_t i = 0; i < entry->host_count; i++) {
		struct entry_host *host = &entry->hosts[i];
		enum recording_state state = host->shown.state;
		if (is_final(state))
			continue;
		const struct recordings_agent *agent = agent_of(recordings, host->shown.agent);
		int64_t polled_ns = later(agent ? agent->polled_ns : entry->created_ns, awake_ns);
		int64_t patience_ns = state == RECORDING_SENDING ? RECORDINGS_SENDING_NS : RECORDINGS_SILENT_NS;
		bool is_silent = now_ns - later(polled_ns, end_ns) > patience_ns;
		bool was_late = state == RECORDING_WAITING && now_ns - later(start_ns, awake_ns) > RECORDINGS_SILENT_NS;
		if (is_silent || was_late)
			snprintf(why, sizeof(why), "its agent did not poll for %lld s",
				 (long long)((now_ns - polled_ns) / NS_PER_S));
		else if (now_ns - end_ns > RECORDINGS_LAST_NS)
			snprintf(why, sizeof(why), "its agent polls, but did not finish in time");
		else
			continue;
		host_set(host, RECORDING_SILENT, why);
	}
}

static bool entry_is_over(const struct entry *entry)
{
	for (size_t i = 0; i < entry->host_count; i++)
		if (!is_final(entry->hosts[i].shown.state))
			return false;
	return true;
}

static struct entry_host *part_of_agent(struct entry *entry, const char *agent)
{
	for (size_t i = 0; i < entry->host_count; i++)
		if (strcmp(entry->hosts[i].shown.agent, agent) == 0)
			return &entry->hosts[i];
	return NULL;
}

/* Where an agent still has to do something; *ret_host is its part. */
static struct entry *work_of(const struct recordings *recordings, const char *agent, struct entry_host **ret_host)
{
	for (size_t i = recordings->count; i > 0; i--) {
		struct entry_host *host = part_of_agent(recordings->entries[i - 1], agent);
		if (host && !is_final(host->shown.state)) {
			*ret_host = host;
			return recordings->entries[i - 1];
		}
	}
	return NULL;
}

/* ---- agents ---- */

/* The one that has not asked for the longest makes room, if that is long. */
static struct recordings_agent *agent_slot(struct recordings *recordings, const char *id, int64_t now_ns, struct error *err)
{
	struct recordings_agent *agent = (struct recordings_agent *)agent_of(recordings, id), *oldest = NULL;
	if (agent)
		return agent;
	for (size_t i = 0; i < recordings->agent_count; i++)
		if (!oldest || recordings->agents[i].polled_ns < oldest->polled_ns)
			oldest = &recordings->agents[i];
	if (oldest && now_ns - oldest->polled_ns > 4 * RECORDINGS_AGENT_STALE_NS)
		return oldest;
	if (recordings->agent_count >= RECORDINGS_AGENTS_MAX) {
		error_set(err, -EDQUOT, "the limit of %d agents is reached", RECORDINGS_AGENTS_MAX);
		return NULL;
	}
	if (array_reserve(&recordings->agents, &recordings->agent_capacity, recordings->agent_count + 1,
			  RECORDINGS_AGENTS_MAX) < 0) {
		error_nomem(err);
		return NULL;
	}
	return &recordings->agents[recordings->agent_count++];
}

/* A state never goes back, and whether a file is there is not for the agent to say. */
static void take_report(struct recordings *recordings, const struct control_poll *poll, struct control_reply *reply)
{
	const struct recording_report *report = &poll->report;
	struct entry *entry = *report->id ? find(recordings, report->id) : NULL;
	struct entry_host *host = entry ? part_of_agent(entry, poll->agent) : NULL;
	if (*report->id && !host && reply->cancel_count < CONTROL_CANCELS_MAX) {
		memcpy(reply->cancelled[reply->cancel_count++], report->id, sizeof(report->id));
		return;
	}
	if (!host || is_final(host->shown.state) || report->state <= host->shown.state || report->state == RECORDING_DONE)
		return;
	host_set(host, report->state, report->why);
	if (is_final(report->state)) /* after a crash it is asked again, and fails again */
		recordings_save_later(recordings, entry);
}

int recordings_poll(struct recordings *recordings, const struct control_poll *poll, int64_t now_ns, struct control_reply *reply,
		    struct error *err)
{
	struct entry_host *host;
	reply->poll_ns = RECORDINGS_POLL_NS;
	THREAD_LOCK_SCOPE(&recordings->lock);
	make_room(recordings, NULL, 0, 0, now_ns); /* of what is too old: agents ask all the time, people seldom */
	struct recordings_agent *agent = agent_slot(recordings, poll->agent, now_ns, err);
	if (agent) {
		*agent = (struct recordings_agent){.poll = *poll, .polled_ns = now_ns};
		take_report(recordings, poll, reply);
		struct entry *entry = work_of(recordings, poll->agent, &host);
		if (entry) {
			memcpy(agent->recording, entry->request.id, sizeof(agent->recording));
			reply->poll_ns = RECORDINGS_POLL_BUSY_NS;
			reply->has_request = true;
			reply->request = entry->request;
			memcpy(reply->request.key, host->key, sizeof(host->key));
		}
	}
	return agent ? 0 : err && err->code ? err->code : -EDQUOT;
}

static int compare_agents(const void *left, const void *right)
{
	const struct recordings_agent *a = left, *b = right;
	return strcmp(a->poll.host, b->poll.host) ?: strcmp(a->poll.agent, b->poll.agent);
}

int recordings_agents(struct recordings *recordings, int64_t now_ns, struct recordings_agent **ret, size_t *ret_count,
		      struct error *err)
{
	size_t count = 0;
	pthread_mutex_lock(&recordings->lock);
	struct recordings_agent *all = mem_alloc_array(recordings->agent_count + 1, sizeof(*all));
	for (size_t i = 0; all && i < recordings->agent_count; i++)
		if (now_ns - recordings->agents[i].polled_ns <= RECORDINGS_AGENT_STALE_NS)
			all[count++] = recordings->agents[i];
	pthread_mutex_unlock(&recordings->lock);
	if (!all)
		return error_nomem(err);
	qsort(all, count, sizeof(*all), compare_agents);
	*ret = all;
	*ret_count = count;
	return 0;
}

/* ---- making one ---- */

/* Of several agents of one host, the one that asked last. */
static const struct recordings_agent *agent_of_host(const struct recordings *recordings, const char *host, int64_t now_ns)
{
	const struct recordings_agent *best = NULL;
	for (size_t i = 0; i < recordings->agent_count; i++) {
		const struct recordings_agent *agent = &recordings->agents[i];
		if (now_ns - agent->polled_ns <= RECORDINGS_AGENT_STALE_NS && strcmp(agent->poll.host, host) == 0 &&
		    (!best || agent->polled_ns > best->polled_ns))
			best = agent;
	}
	return best;
}

static void begin_host(const struct recordings *recordings, struct entry_host *host, const char *name, int64_t now_ns)
{
	const struct recordings_agent *agent = agent_of_host(recordings, name, now_ns);
	struct entry_host *part;
	snprintf(host->shown.name, sizeof(host->shown.name), "%s", name);
	if (!agent) {
		host_set(host, RECORDING_SILENT, "no agent of this host is connected to this server");
		return;
	}
	memcpy(host->shown.agent, agent->poll.agent, sizeof(host->shown.agent));
	if (agent->poll.refusal[0])
		host_set(host, RECORDING_FAILED, agent->poll.refusal);
	else if (work_of(recordings, agent->poll.agent, &part))
		host_set(host, RECORDING_FAILED, "another recording is in progress on it");
}

static bool is_named(const struct entry *entry, const char *name)
{
	return entry_host_find((struct entry *)entry, name) != NULL;
}

static void begin_all(const struct recordings *recordings, struct entry *entry, int64_t now_ns)
{
	for (size_t i = 0; i < recordings->agent_count && entry->host_count < RECORDING_HOSTS_MAX; i++) {
		const struct recordings_agent *agent = &recordings->agents[i];
		if (now_ns - agent->polled_ns > RECORDINGS_AGENT_STALE_NS || is_named(entry, agent->poll.host))
			continue;
		begin_host(recordings, &entry->hosts[entry->host_count], agent->poll.host, now_ns);
		entry->host_count++;
	}
}

static int make_keys(struct entry *entry, struct error *err)
{
	int r = 0;
	for (size_t i = 0; i < entry->host_count && r == 0; i++)
		r = control_make_id(entry->hosts[i].key, CONTROL_KEY_SIZE / 2, err);
	return r;
}

static int make_entry(struct recordings *recordings, struct entry *entry, char (*hosts)[CONTROL_HOST_SIZE], size_t host_count,
		      int64_t now_ns, struct error *err)
{
	size_t most = host_count ? host_count : RECORDING_HOSTS_MAX;
	entry->hosts = mem_zalloc_array(most, sizeof(*entry->hosts));
	if (!entry->hosts)
		return error_nomem(err);
	for (; entry->host_count < host_count; entry->host_count++)
		begin_host(recordings, &entry->hosts[entry->host_count], hosts[entry->host_count], now_ns);
	if (!host_count)
		begin_all(recordings, entry, now_ns);
	if (!entry->host_count)
		return error_set(err, -ENOENT,
				 "no agent polls this server for recording requests; an agent of this version starts to poll a "
				 "few seconds after its start");
	make_room(recordings, NULL, 0, entry->host_count, now_ns);
	int r = make_keys(entry, err);
	return r < 0 ? r : recordings_add_entry(recordings, entry, err);
}

/* One that is in the table. Its agents may get it before it is on disk; if it never is, it is taken back. */
static int save_new(struct recordings *recordings, struct entry *entry, struct error *err)
{
	entry->users++;
	int r = recordings_save_entry(recordings, entry, err);
	if (r < 0 && !entry->is_gone)
		take_out(recordings, find_place(recordings, entry->request.id));
	recordings_leave(recordings, entry);
	return r;
}

int recordings_create(struct recordings *recordings, struct recording_request *request, char (*hosts)[CONTROL_HOST_SIZE],
		      size_t host_count, int64_t now_ns, struct error *err)
{
	struct entry *entry = mem_zalloc(sizeof(*entry));
	int r = entry ? control_make_id(request->id, ID_BYTES, err) : error_nomem(err);
	if (r < 0) {
		entry_free(entry);
		return r;
	}
	request->start_ns = now_ns + RECORDINGS_LEAD_NS;
	entry->request = *request;
	entry->created_ns = now_ns;
	THREAD_LOCK_SCOPE(&recordings->lock);
	r = make_entry(recordings, entry, hosts, host_count, now_ns, err);
	if (r < 0)
		entry_free(entry);
	else
		r = save_new(recordings, entry, err);
	recordings->stats.created += r == 0;
	return r;
}

/* ---- looking ---- */

struct recording *recording_free(struct recording *recording)
{
	if (recording)
		mem_free(recording->hosts);
	return mem_free(recording);
}

static struct recording *copy_entry(const struct entry *entry)
{
	struct recording *copy = mem_zalloc(sizeof(*copy));
	struct recording_host *hosts = mem_alloc_array(entry->host_count + 1, sizeof(*hosts));
	if (!copy || !hosts) {
		mem_free(hosts);
		return mem_free(copy);
	}
	for (size_t i = 0; i < entry->host_count; i++)
		hosts[i] = entry->hosts[i].shown;
	*copy = (struct recording){.request = entry->request,
				   .created_ns = entry->created_ns,
				   .is_over = entry_is_over(entry),
				   .bytes = entry->bytes,
				   .hosts = hosts,
				   .host_count = entry->host_count};
	return copy;
}

int recordings_get(struct recordings *recordings, const char *id, int64_t now_ns, struct recording **ret, struct error *err)
{
	THREAD_LOCK_SCOPE(&recordings->lock);
	struct entry *entry = find(recordings, id);
	struct recording *copy = NULL;
	if (entry) {
		entry_update(recordings, entry, now_ns);
		copy = copy_entry(entry);
	}
	*ret = copy;
	return !entry ? not_there(id, err) : copy ? 0 : error_nomem(err);
}

int recordings_list(struct recordings *recordings, int64_t now_ns, struct recording ***ret, size_t *ret_count,
		    struct error *err)
{
	size_t count = 0;
	pthread_mutex_lock(&recordings->lock);
	make_room(recordings, NULL, 0, 0, now_ns);
	struct recording **all = mem_alloc_array(recordings->count + 1, sizeof(struct recording *));
	int r = all ? 0 : -ENOMEM;
	for (size_t i = recordings->count; i > 0 && r == 0; i--) {
		entry_update(recordings, recordings->entries[i - 1], now_ns);
		all[count] = copy_entry(recordings->entries[i - 1]);
		r = all[count] ? 0 : -ENOMEM;
		count += r == 0;
	}
	pthread_mutex_unlock(&recordings->lock);
	if (r < 0) {
		while (count)
			recording_free(all[--count]);
		mem_free(all);
		return error_nomem(err);
	}
	*ret = all;
	*ret_count = count;
	return 0;
}

int recordings_remove(struct recordings *recordings, const char *id, struct error *err)
{
	THREAD_LOCK_SCOPE(&recordings->lock);
	size_t place = find_place(recordings, id);
	bool is_there = place < recordings->count;
	if (is_there)
		take_out(recordings, place);
	return is_there ? 0 : not_there(id, err);
}

/* ---- files ---- */

/* In a time that does not depend on where they differ. */
static bool key_is(const char *given, const char *key)
{
	size_t len = strlen(key);
	unsigned char difference = 0;
	if (!len || strlen(given) != len)
		return false;
	for (size_t i = 0; i < len; i++)
		difference |= (unsigned char)(given[i] ^ key[i]);
	return difference == 0;
}

static int admit(const struct recordings *recordings, const struct recordings_upload *upload, struct entry **ret,
		 struct entry_host **ret_host, struct error *err)
{
	struct entry *entry = find(recordings, upload->id);
	struct entry_host *host = entry ? entry_host_find(entry, upload->host) : NULL;
	*ret = entry;
	*ret_host = host;
	if (!entry)
		return not_there(upload->id, err);
	if (!host)
		return error_set(err, -ENOENT, "recording '%s' does not include host '%s'", upload->id, upload->host);
	if (!upload->key)
		return error_set(err, -EACCES,
				 "the header " CONTROL_KEY_HEADER " is missing: it carries the key of the recording request; "
				 "agents older than the server do not send it");
	if (!key_is(upload->key, host->key))
		return error_set(err, -EACCES, "the key in " CONTROL_KEY_HEADER " is not the key of the recording request");
	if (host->shown.state == RECORDING_DONE || host->shown.bytes)
		return error_set(err, -EEXIST, "the recording of this host is already stored");
	if (host->is_writing)
		return error_set(err, -EAGAIN, "the recording of this host is being written; check again whether it arrived");
	return 0;
}

int recordings_admit(struct recordings *recordings, const struct recordings_upload *upload, struct error *err)
{
	struct entry *entry;
	struct entry_host *host;
	THREAD_LOCK_SCOPE(&recordings->lock);
	int r = admit(recordings, upload, &entry, &host, err);
	recordings->stats.refused += r < 0;
	return r;
}

/* On success the caller is a user of the entry, and the only one who writes the host's file. */
static int begin_put(struct recordings *recordings, const struct recordings_upload *upload, uint64_t more, int64_t now_ns,
		     struct entry **ret, struct error *err)
{
	struct entry *entry;
	struct entry_host *host;
	int r = admit(recordings, upload, &entry, &host, err);
	if (r < 0)
		return r;
	/* What cannot have room beside its own recording costs no other. */
	if (entry->bytes + recordings->reserved + more <= recordings->options.bytes_max)
		make_room(recordings, entry, more, 0, now_ns);
	if (recordings->stats.bytes + recordings->reserved + more > recordings->options.bytes_max)
		return error_set(err, -ENOSPC, "the limit of all recordings is %llu bytes",
				 (unsigned long long)recordings->options.bytes_max);
	host->is_writing = true;
	recordings->reserved += more;
	entry->users++;
	*ret = entry;
	return 0;
}

/* reserved: the size that begin_put() got. */
static void end_put(struct recordings *recordings, struct entry *entry, const struct recording_file *file, uint64_t reserved,
		    uint64_t bytes, int r)
{
	struct entry_host *host = entry_host_find(entry, file->host);
	host->is_writing = false;
	recordings->reserved -= reserved;
	if (r == 0) {
		host_set(host, RECORDING_DONE, "");
		host->shown.bytes = bytes;
		host->shown.plain_bytes = file->plain_bytes;
		host->shown.clock = file->clock;
		entry->bytes += bytes;
		recordings->stats.received++;
		recordings->stats.bytes_received += bytes;
		if (!entry->is_gone)
			recordings->stats.bytes += bytes;
	}
	recordings_leave(recordings, entry);
}

int recordings_put(struct recordings *recordings, const struct recordings_upload *upload, int64_t now_ns, struct error *err)
{
	struct recording_file file = {.received_ns = now_ns, .clock = upload->clock};
	struct entry *entry = NULL;
	uint64_t bytes = 0, more = upload->gzip.len + NOTED_HEADER_MAX;
	char path[PATH_MAX], name[RECORDING_NAME_SIZE];
	int r = recording_file_measure(upload->gzip, &file.plain_bytes, err);
	pthread_mutex_lock(&recordings->lock);
	if (r == 0)
		r = begin_put(recordings, upload, more, now_ns, &entry, err);
	recordings->stats.refused += r < 0;
	if (r == 0) {
		file.start_ns = entry->request.start_ns;
		file.duration_ns = entry->request.duration_ns;
	}
	pthread_mutex_unlock(&recordings->lock);
	if (r < 0)
		return r;
	snprintf(file.id, sizeof(file.id), "%s", upload->id);
	snprintf(file.host, sizeof(file.host), "%s", upload->host);
	recording_file_name(file.host, name);
	r = recordings_path(recordings, file.id, name, path, err);
	if (r == 0)
		r = recording_file_put(path, &file, upload->gzip, &bytes, err);
	THREAD_LOCK_SCOPE(&recordings->lock);
	end_put(recordings, entry, &file, more, bytes, r);
	return r;
}

static void lose_file(struct recordings *recordings, struct entry *entry, const char *name, const char *path,
		      const struct error *why)
{
	struct entry_host *host = entry_host_find(entry, name);
	if (host->shown.state != RECORDING_DONE) /* somebody else found it, too */
		return;
	recordings_set_aside(recordings, path, why->message);
	entry->bytes -= host->shown.bytes;
	if (!entry->is_gone)
		recordings->stats.bytes -= host->shown.bytes;
	host->shown.bytes = host->shown.plain_bytes = 0;
	host_set(host, RECORDING_FAILED, "its file was damaged on the server's disk, and set aside");
}

int recordings_read(struct recordings *recordings, const char *id, const char *host, struct buffer *ret, struct error *err)
{
	char path[PATH_MAX], name[RECORDING_NAME_SIZE];
	struct recording_file file;
	struct error own = {0};
	err = err ? err : &own;
	pthread_mutex_lock(&recordings->lock);
	struct entry *entry = find(recordings, id);
	struct entry_host *part = entry ? entry_host_find(entry, host) : NULL;
	int r = !entry					      ? not_there(id, err)
		: part && part->shown.state == RECORDING_DONE ? 0
							      : error_set(err, -ENOENT, "no recording of host '%s'", host);
	if (r == 0)
		entry->users++;
	pthread_mutex_unlock(&recordings->lock);
	if (r < 0)
		return r;
	recording_file_name(host, name);
	r = recordings_path(recordings, id, name, path, err);
	if (r == 0)
		r = io_read_file(path, RECORDINGS_UPLOAD_MAX + NOTED_HEADER_MAX, ret, err);
	bool is_read = r == 0;
	if (r == 0)
		r = noted_check(&recording_form, buffer_bytes(ret), &file, err);
	THREAD_LOCK_SCOPE(&recordings->lock);
	if (is_read && r == -EBADMSG)
		lose_file(recordings, entry, host, path, err);
	recordings_leave(recordings, entry);
	return r;
}

void recordings_count_refused(struct recordings *recordings)
{
	THREAD_LOCK_SCOPE(&recordings->lock);
	recordings->stats.refused++;
}

void recordings_give_up(struct recordings *recordings, const char *id, const char *host, const char *why)
{
	THREAD_LOCK_SCOPE(&recordings->lock);
	struct entry *entry = find(recordings, id);
	struct entry_host *part = entry ? entry_host_find(entry, host) : NULL;
	if (part && part->shown.state == RECORDING_DONE)
		host_set(part, RECORDING_FAILED, why);
}

/* ---- life ---- */

int recordings_open(const struct recordings_options *options, int64_t now_ns, struct recordings **ret, struct error *err)
{
	_cleanup_(recordings_closep) struct recordings *recordings = mem_zalloc(sizeof(*recordings));
	if (!recordings)
		return error_nomem(err);
	pthread_mutex_init(&recordings->lock, NULL);
	pthread_cond_init(&recordings->saver_wake, NULL);
	recordings->options = *options;
	recordings->opened_ns = now_ns;
	if (!recordings->options.bytes_max)
		recordings->options.bytes_max = RECORDINGS_BYTES_DEFAULT;
	if (!recordings->options.age_ns)
		recordings->options.age_ns = RECORDINGS_AGE_DEFAULT_NS;
	recordings->directory = mem_strdup(options->directory);
	if (!recordings->directory)
		return error_nomem(err);
	int r = recordings_load(recordings, err);
	if (r < 0)
		return r;
	make_room(recordings, NULL, 0, 0, now_ns);
	*ret = TAKE(recordings);
	return 0;
}

struct recordings *recordings_close(struct recordings *recordings)
{
	if (!recordings)
		return NULL;
	recordings_stop_saver(recordings);
	for (size_t i = 0; i < recordings->count; i++)
		entry_free(recordings->entries[i]);
	mem_free(recordings->entries);
	mem_free(recordings->agents);
	mem_free(recordings->directory);
	pthread_cond_destroy(&recordings->saver_wake);
	pthread_mutex_destroy(&recordings->lock);
	return mem_free(recordings);
}

void recordings_get_stats(struct recordings *recordings, struct recordings_stats *ret)
{
	int64_t now_ns = time_now_ns();
	THREAD_LOCK_SCOPE(&recordings->lock);
	*ret = recordings->stats;
	ret->recordings = recordings->count;
	ret->bytes_max = recordings->options.bytes_max;
	for (size_t i = 0; i < recordings->count; i++)
		for (size_t k = 0; k < recordings->entries[i]->host_count; k++)
			ret->files += recordings->entries[i]->hosts[k].shown.state == RECORDING_DONE;
	for (size_t i = 0; i < recordings->agent_count; i++)
		ret->agents += now_ns - recordings->agents[i].polled_ns <= RECORDINGS_AGENT_STALE_NS;
}
