/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/host_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "profile/hosts.h"

#define FILE_BYTES 16384 /* of a file, its beginning: more than the first CPU takes */

static void add(struct host_facts *facts, const char *key, const char *value)
{
	if (!*value || facts->count == HOST_FACTS_MAX)
		return;
	struct host_fact *fact = &facts->items[facts->count++];
	fact->key = key;
	snprintf(fact->value, sizeof(fact->value), "%s", value);
}

static void add_number(struct host_facts *facts, const char *key, long number)
{
	char text[24];
	snprintf(text, sizeof(text), "%ld", number);
	if (number > 0)
		add(facts, key, text);
}

static bool read_file(const char *root, const char *path, char *text, size_t size)
{
	char whole[512];
	if (snprintf(whole, sizeof(whole), "%s%s", root, path) >= (int)sizeof(whole))
		return false;
	return io_read_text(whole, text, size) > 0;
}

/* The value of the first line "NAME SEPARATOR value", without quotes; "" if there is none. */
static void find_line(const char *text, const char *name, char separator, char *out, size_t size)
{
	size_t len = strlen(name);
	*out = '\0';
	for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
		const char *at = line + len;
		if (strncmp(line, name, len) != 0)
			continue;
		at += strspn(at, " \t");
		if (*at++ != separator)
			continue;
		at += strspn(at, " \t\"'");
		size_t end = strcspn(at, "\n");
		while (end && strchr(" \t\"'", at[end - 1]))
			end--;
		snprintf(out, size, "%.*s", (int)(end < size ? end : size - 1), at);
		return;
	}
}

/* ---- CPU ---- */

static void add_line(struct host_facts *facts, const char *key, const char *text, const char *name, char separator)
{
	char value[256];
	find_line(text, name, separator, value, sizeof(value));
	add(facts, key, value);
}

/* ARM's kernel has numbers instead of a name. */
static void add_cpu(struct host_facts *facts, const char *cpuinfo)
{
	char name[256];
	find_line(cpuinfo, "model name", ':', name, sizeof(name));
	add(facts, "host.cpu.model.name", name);
	add_line(facts, "host.cpu.vendor.id", cpuinfo, *name ? "vendor_id" : "CPU implementer", ':');
	if (!*name)
		add_line(facts, "host.cpu.model.id", cpuinfo, "CPU part", ':');
	add_line(facts, "host.cpu.microcode", cpuinfo, "microcode", ':');
}

/* "0-3,8": 5 */
static long count_list(const char *text)
{
	long count = 0;
	while (text_is_digit(*text)) {
		char *end;
		long first = strtol(text, &end, 10), last = first;
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		if (last < first || last - first > 65536)
			return 0;
		count += last - first + 1;
		text = *end == ',' ? end + 1 : "";
	}
	return count;
}

static void add_counts(struct host_facts *facts, const char *root)
{
	char text[1024];
	if (read_file(root, "/sys/devices/system/cpu/online", text, sizeof(text)))
		add_number(facts, "host.cpu.count", count_list(text));
	else
		add_number(facts, "host.cpu.count", sysconf(_SC_NPROCESSORS_ONLN));
	if (read_file(root, "/sys/devices/system/node/online", text, sizeof(text)))
		add_number(facts, "host.numa.nodes", count_list(text));
}

/* ---- virtualization ---- */

static const struct {
	const char *text, *name;
} hypervisors[] = {
	{"KVM", "kvm"},
	{"QEMU", "kvm"},
	{"VMware", "vmware"},
	{"VirtualBox", "virtualbox"},
	{"innotek", "virtualbox"},
	{"Microsoft", "hyper-v"},
	{"Amazon EC2", "amazon"},
	{"Google", "google"},
	{"Xen", "xen"},
	{"OpenStack", "openstack"},
	{"Parallels", "parallels"},
	{"Apple Virtualization", "apple"},
};

static const char *known_hypervisor(const char *root)
{
	static const char *const paths[] = {"/sys/hypervisor/type", "/sys/class/dmi/id/sys_vendor",
					    "/sys/class/dmi/id/product_name"};
	char text[256];
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		if (!read_file(root, paths[i], text, sizeof(text)))
			continue;
		for (size_t k = 0; k < sizeof(hypervisors) / sizeof(*hypervisors); k++)
			if (strcasestr(text, hypervisors[k].text))
				return hypervisors[k].name;
	}
	return NULL;
}

/* x86 CPUs say whether there is a hypervisor; without that nothing is said of machines that have none. */
static void add_virtualization(struct host_facts *facts, const char *root, const char *cpuinfo)
{
	char flags[8192];
	find_line(cpuinfo, "flags", ':', flags, sizeof(flags));
	const char *known = *flags && !strstr(flags, " hypervisor") ? "none" : known_hypervisor(root);
	add(facts, "host.virtualization", known ? known : *flags ? "other" : "");
}

/* ---- all ---- */

static const char *arch_of(const char *machine)
{
	static const char *const names[][2] = {{"x86_64", "amd64"}, {"aarch64", "arm64"}, {"i686", "x86"},
					       {"i386", "x86"},	    {"armv7l", "arm32"},  {"ppc64le", "ppc64"}};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(machine, names[i][0]) == 0)
			return names[i][1];
	return machine;
}

void host_facts_read(const char *root, struct host_facts *ret)
{
	static const char *const releases[] = {"/etc/os-release", "/usr/lib/os-release"};
	char text[FILE_BYTES] = "";
	struct utsname names = {0};
	*ret = (struct host_facts){0};
	read_file(root, "/proc/cpuinfo", text, sizeof(text));
	add_cpu(ret, text);
	add_virtualization(ret, root, text);
	add_counts(ret, root);
	if (uname(&names) == 0) {
		add(ret, "host.arch", arch_of(names.machine));
		add(ret, "os.version", names.release);
	}
	for (size_t i = 0; i < sizeof(releases) / sizeof(*releases); i++) {
		if (!read_file(root, releases[i], text, sizeof(text)))
			continue;
		add_line(ret, "os.name", text, "NAME", '=');
		add_line(ret, "os.description", text, "PRETTY_NAME", '=');
		break;
	}
	add(ret, "agent.version", WICK_VERSION);
}

static int add_label(struct profile *profile, const char *key, const char *value, struct profile_label *ret, struct error *err)
{
	*ret = (struct profile_label){0};
	int r = profile_add_cstring(profile, key, &ret->key, err);
	return r < 0 ? r : profile_add_cstring(profile, value, &ret->value, err);
}

int host_facts_add(const struct host_facts *facts, const struct labels *given, struct profile *profile, struct error *err)
{
	struct profile_label labels[LIMIT_HOST_LABELS];
	char name[LIMIT_LABEL_NAME_BYTES];
	size_t count = 0;
	int r = 0;
	if (!profile_label_value(profile, profile->resource_labels, PROFILE_HOST_LABEL))
		return 0;
	for (size_t i = 0; r == 0 && given && i < given->count && count < LIMIT_HOST_LABELS; i++)
		r = add_label(profile, given->items[i].name, given->items[i].value, &labels[count++], err);
	for (size_t i = 0; r == 0 && i < facts->count && count < LIMIT_HOST_LABELS; i++) {
		label_name_sanitize(bytes_of_string(facts->items[i].key), name);
		if (!given || !labels_get(given, name))
			r = add_label(profile, facts->items[i].key, facts->items[i].value, &labels[count++], err);
	}
	return r < 0 ? r : profile_add_label_set(profile, labels, count, &profile->host_labels, err);
}
