/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts in the Firefox Profiler's format, which knows none.
 *
 * The viewer puts threads of one pid together, and pid and tid are any texts to it. In a profile of several hosts they are
 * "HOST:PID" and "HOST:TID", and a process is called "NAME (HOST)". A profile of one host has plain numbers.
 *
 * How the hosts' clocks stand to each other is in meta.extra, a section of labels and texts that the viewer shows in "Profile
 * info", and once more in meta.wick.hosts, in numbers, for our own reader, which undoes all of this.
 */
#include "format/firefox/firefox_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"

/* ---- writing ---- */

static void append_text(struct buffer *out, const struct profile *profile, uint32_t text)
{
	struct bytes bytes = profile_string_bytes(profile, text);
	buffer_append(out, bytes.data, bytes.len);
}

/* "5.000250 s ahead of alpha, running 50.00 ppm fast" */
static void append_line(struct buffer *out, const struct profile *profile, const struct profile_host *host)
{
	double seconds = fabs((double)host->offset_ns) / (double)NS_PER_S, ppm = fabs(host->skew) * 1e6;
	buffer_printf(out, "%.6f s %s ", seconds, host->offset_ns < 0 ? "behind" : "ahead of");
	append_text(out, profile, host->reference);
	if (ppm >= 0.005)
		buffer_printf(out, ", running %.2f ppm %s", ppm, host->skew < 0 ? "slow" : "fast");
}

static void append_clock(struct buffer *out, const struct profile *profile, const struct profile_host *host)
{
	char count[TEXT_NUMBER_MAX];
	if (!host->reference || (host->is_aligned && host->reference == host->name)) {
		buffer_append_string(out, host->reference ? "reference clock" : "not compared with other clocks");
		return;
	}
	append_line(out, profile, host);
	if (host->bound_ns >= 0)
		buffer_printf(out, ", accurate to %.6f s", (double)host->bound_ns / (double)NS_PER_S);
	else
		buffer_append_string(out, ", of unknown accuracy");
	if (host->method) {
		buffer_append_string(out, ", by ");
		append_text(out, profile, host->method);
	}
	if (host->exchanges)
		buffer_printf(out, " (%s messages)", text_format_count(host->exchanges, count));
	if (host->is_aligned)
		buffer_append_string(out, "; corrected");
}

void firefox_put_host_section(const struct profile *profile, struct json_writer *json)
{
	size_t count = profile_host_count(profile);
	bool compared = count > 1;
	for (size_t i = 1; i <= count; i++)
		compared |= profile->markers->hosts[i].reference != 0;
	if (!compared)
		return;
	_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
	json_begin_object(json);
	json_member_cstring(json, "label", "Clocks of hosts");
	json_member_array(json, "entries");
	for (size_t i = 1; i <= count; i++) {
		const struct profile_host *host = &profile->markers->hosts[i];
		buffer_clear(&text);
		append_clock(&text, profile, host);
		buffer_fail(json->out, buffer_status(&text));
		json_begin_object(json);
		json_member_bytes(json, "label", profile_string_bytes(profile, host->name));
		json_member_cstring(json, "format", "string");
		json_member_bytes(json, "value", buffer_bytes(&text));
		json_end_object(json);
	}
	json_end_array(json);
	json_end_object(json);
}

/* NULL = there are several, or nothing is known of it. */
static const struct profile_machine *only_machine(const struct profile *profile)
{
	return profile_host_count(profile) == 1 ? &profile->markers->hosts[1].machine : NULL;
}

struct bytes firefox_product(const struct profile *profile)
{
	const struct profile_machine *machine = only_machine(profile);
	return machine ? profile_string_bytes(profile, machine->program) : (struct bytes){0};
}

static void put_text(const struct profile *profile, const char *name, uint32_t text, struct json_writer *json)
{
	struct bytes bytes = profile_string_bytes(profile, text);
	if (bytes.len > FIREFOX_ARGUMENTS_MAX)
		bytes.len = text_cut(bytes, FIREFOX_ARGUMENTS_MAX);
	if (bytes.len)
		json_member_bytes(json, name, bytes);
}

static void put_number(const char *name, uint32_t number, struct json_writer *json)
{
	if (number)
		json_member_uint(json, name, number);
}

void firefox_put_machine(const struct profile *profile, struct json_writer *json)
{
	const struct profile_machine *machine = only_machine(profile);
	if (!machine)
		return;
	put_text(profile, "oscpu", machine->system, json);
	/* The first word of it: "Linux". */
	struct bytes system = profile_string_bytes(profile, machine->system);
	const uint8_t *space = system.len ? memchr(system.data, ' ', system.len) : NULL;
	if (space)
		json_member_bytes(json, "platform", (struct bytes){system.data, (size_t)(space - system.data)});
	put_text(profile, "CPUName", machine->cpu_name, json);
	put_number("logicalCPUs", machine->logical_cpus, json);
	put_number("physicalCPUs", machine->physical_cpus, json);
	put_text(profile, "arguments", machine->arguments, json);
}

static void put_machine_of(const struct profile *profile, const struct profile_machine *machine, struct json_writer *json)
{
	put_text(profile, "program", machine->program, json);
	put_text(profile, "arguments", machine->arguments, json);
	put_text(profile, "system", machine->system, json);
	put_text(profile, "cpuName", machine->cpu_name, json);
	put_number("logicalCpus", machine->logical_cpus, json);
	put_number("physicalCpus", machine->physical_cpus, json);
}

void firefox_put_hosts(const struct profile *profile, bool has_several, struct json_writer *json)
{
	size_t count = profile_host_count(profile);
	json_member_bool(json, "idsHaveHosts", has_several);
	if (profile->markers && profile->markers->lifetime_count > 1)
		json_member_bool(json, "hasLifetimes", true);
	if (count == 0)
		return;
	json_member_array(json, "hosts");
	for (size_t i = 1; i <= count; i++) {
		const struct profile_host *host = &profile->markers->hosts[i];
		json_begin_object(json);
		json_member_bytes(json, "name", profile_string_bytes(profile, host->name));
		if (host->reference) {
			json_member_bytes(json, "reference", profile_string_bytes(profile, host->reference));
			json_member_bytes(json, "method", profile_string_bytes(profile, host->method));
			json_member_int(json, "atNs", host->at_ns);
			json_member_int(json, "offsetNs", host->offset_ns);
			json_member_double(json, "skew", host->skew);
			json_member_int(json, "boundNs", host->bound_ns);
			json_member_int(json, "exchanges", (int64_t)host->exchanges);
			json_member_bool(json, "isAligned", host->is_aligned);
		}
		put_machine_of(profile, &host->machine, json);
		json_end_object(json);
	}
	json_end_array(json);
}

/* ---- reading ---- */

static bool read_bool(const struct json_node *node)
{
	return json_node_is(node, JSON_NODE_BOOLEAN) && node->boolean;
}

static uint32_t read_count(const struct json_node *node)
{
	int64_t number;
	return json_node_integer(node, &number) && number > 0 && number <= INT32_MAX ? (uint32_t)number : 0;
}

static int read_host(struct firefox_reader *reader, const struct json_node *node, uint32_t *ret, struct error *err)
{
	struct profile_host host = {.bound_ns = json_node_get(node, "reference") ? -1 : 0,
				    .is_aligned = read_bool(json_node_get(node, "isAligned"))};
	int64_t exchanges = 0;
	json_node_integer(json_node_get(node, "atNs"), &host.at_ns);
	json_node_integer(json_node_get(node, "offsetNs"), &host.offset_ns);
	json_node_integer(json_node_get(node, "boundNs"), &host.bound_ns);
	json_node_integer(json_node_get(node, "exchanges"), &exchanges);
	host.exchanges = exchanges > 0 ? (uint64_t)exchanges : 0;
	host.machine.logical_cpus = read_count(json_node_get(node, "logicalCpus"));
	host.machine.physical_cpus = read_count(json_node_get(node, "physicalCpus"));
	if (!json_node_real(json_node_get(node, "skew"), &host.skew) || !(fabs(host.skew) < 1))
		host.skew = 0;
	const struct format_string texts[] = {{"name", &host.name},
					      {"reference", &host.reference},
					      {"method", &host.method},
					      {"program", &host.machine.program},
					      {"arguments", &host.machine.arguments},
					      {"system", &host.machine.system},
					      {"cpuName", &host.machine.cpu_name}};
	int r = format_add_members(reader->profile, node, texts, sizeof(texts) / sizeof(texts[0]), err);
	return r < 0 ? r : profile_add_host(reader->profile, &host, ret, err);
}

int firefox_read_hosts(struct firefox_reader *reader, struct error *err)
{
	const struct json_node *own = reader->is_own ? json_node_get(reader->meta, "wick") : NULL,
			       *hosts = json_node_get(own, "hosts");
	int r = 0;
	reader->ids_have_hosts = read_bool(json_node_get(own, "idsHaveHosts"));
	reader->has_lifetimes = read_bool(json_node_get(own, "hasLifetimes"));
	for (size_t i = 0; r == 0 && i < json_node_count(hosts); i++)
		r = read_host(reader, json_node_at(hosts, i), &reader->only_host, err);
	if (reader->ids_have_hosts || profile_host_count(reader->profile) != 1)
		reader->only_host = 0;
	return r;
}

/* Hosts may have colons in their names, ids have not. */
struct firefox_id firefox_read_id(const struct firefox_reader *reader, const struct json_node *node)
{
	struct firefox_id id = {.text = json_node_bytes(node)};
	const uint8_t *colon = reader->ids_have_hosts && id.text.len ? memrchr(id.text.data, ':', id.text.len) : NULL;
	if (!colon && !reader->has_lifetimes) {
		id.is_number = json_node_integer(node, &id.number);
		return id;
	}
	if (colon) {
		id.host = (struct bytes){id.text.data, (size_t)(colon - id.text.data)};
		id.text = (struct bytes){colon + 1, id.text.len - id.host.len - 1};
	} else if (json_node_integer(node, &id.number)) {
		id.is_number = true;
		return id;
	}
	/* The second program of a process, or owner of a tid. */
	const uint8_t *dot = reader->has_lifetimes && id.text.len ? memchr(id.text.data, '.', id.text.len) : NULL;
	if (dot)
		id.text.len = (size_t)(dot - id.text.data);
	char number[TEXT_NUMBER_MAX];
	if (id.text.len < sizeof(number)) {
		snprintf(number, sizeof(number), "%.*s", (int)id.text.len, (const char *)id.text.data);
		id.is_number = strlen(number) == id.text.len && text_parse_i64(number, &id.number, NULL) == 0;
	}
	return id;
}

struct bytes firefox_process_name(const struct firefox_reader *reader, const struct json_node *thread)
{
	struct bytes name = json_node_bytes(json_node_get(thread, "processName")),
		     host = firefox_read_id(reader, json_node_get(thread, "pid")).host;
	size_t added = host.len + strlen(" ()");
	if (!host.len || name.len < added)
		return name;
	const uint8_t *end = name.data + name.len - added;
	if (memcmp(end, " (", 2) == 0 && memcmp(end + 2, host.data, host.len) == 0 && end[2 + host.len] == ')')
		name.len -= added;
	return name;
}

int firefox_find_host(struct firefox_reader *reader, struct firefox_id pid, uint32_t *ret, struct error *err)
{
	struct profile_host host = {0};
	*ret = reader->only_host;
	if (!pid.host.len)
		return 0;
	int r = profile_add_bytes(reader->profile, pid.host, &host.name, err);
	return r < 0 ? r : profile_add_host(reader->profile, &host, ret, err);
}

/* Milliseconds since the start of the file; 0 = unknown. */
static int64_t read_end(const struct firefox_reader *reader, const struct json_node *node)
{
	double since_start_ms;
	int64_t wall_ns;
	return json_node_real(node, &since_start_ms) && firefox_wall_ns(reader, since_start_ms, &wall_ns) ? wall_ns : 0;
}

/* A thread that was there before says 0. */
static int64_t read_start(const struct firefox_reader *reader, const struct json_node *node)
{
	double since_start_ms;
	return json_node_real(node, &since_start_ms) && since_start_ms > 0 ? read_end(reader, node) : 0;
}

int firefox_read_lifetime(struct firefox_reader *reader, const struct json_node *thread, struct error *err)
{
	struct firefox_id pid = firefox_read_id(reader, json_node_get(thread, "pid")),
			  tid = firefox_read_id(reader, json_node_get(thread, "tid"));
	struct profile_lifetime lifetime = {.pid = pid.number, .tid = tid.number};
	uint32_t id;
	if (!reader->has_lifetimes || !pid.is_number || !tid.is_number)
		return 0;
	bool is_main = lifetime.pid == lifetime.tid;
	lifetime.start_ns = read_start(reader, json_node_get(thread, is_main ? "processStartupTime" : "registerTime"));
	lifetime.end_ns = read_end(reader, json_node_get(thread, is_main ? "processShutdownTime" : "unregisterTime"));
	lifetime.by_exec = is_main; /* it has a thread in the file, also without a sample */
	int r = firefox_find_host(reader, pid, &lifetime.host, err);
	if (r == 0 && is_main)
		r = profile_add_bytes(reader->profile, firefox_process_name(reader, thread), &lifetime.program, err);
	return r < 0 ? r : profile_add_lifetime(reader->profile, &lifetime, &id, err);
}
