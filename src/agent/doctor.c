// SPDX-License-Identifier: Apache-2.0
/*
 * What `wick doctor` says about this machine. Each examination fills one row; the rows come in the order in which a person
 * would fix them: what cannot be changed without another kernel first, then privileges, then settings.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/agent_int.h"
#include "agent/privileges.h"
#include "agent/process/cgroups.h"
#include "agent/sample/cpus.h"
#include "agent/sample/sampler.h"
#include "base/io.h"
#include "base/kallsyms_path.h"
#include "base/time.h"

void doctor_fill(struct doctor_row *row, enum doctor_verdict verdict, const char *what, const char *fix, const char *found,
		 va_list arguments)
{
	*row = (struct doctor_row){.verdict = verdict};
	snprintf(row->what, sizeof(row->what), "%s", what);
	snprintf(row->fix, sizeof(row->fix), "%s", fix);
	vsnprintf(row->found, sizeof(row->found), found, arguments);
}

static void __attribute__((format(printf, 5, 6)))
report(struct doctor_row *row, enum doctor_verdict verdict, const char *what, const char *fix, const char *found, ...)
{
	va_list arguments;

	va_start(arguments, found);
	doctor_fill(row, verdict, what, fix, found, arguments);
	va_end(arguments);
}

/* A small number in a file; `otherwise` if it cannot be read. */
static long read_number(const char *path, long otherwise)
{
	char text[32];
	return io_read_text(path, text, sizeof(text)) > 0 ? strtol(text, NULL, 10) : otherwise;
}

static void examine_kernel(struct doctor_row *row)
{
	struct utsname names = {0};
	unsigned major_number = 0, minor_number = 0;

	uname(&names);
	sscanf(names.release, "%u.%u", &major_number, &minor_number);
	bool old = major_number < 5 || (major_number == 5 && minor_number < 15);
	report(row, old ? DOCTOR_FAIL : DOCTOR_OK, "kernel", old ? "use Linux 5.15 or newer" : "", "Linux %s, %s",
	       names.release, names.machine);
}

/* What is there, but not for us, is no reason to change the kernel or the machine. */
static bool is_forbidden(int code)
{
	return code == EACCES || code == EPERM;
}

static void examine_btf(struct doctor_row *row)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK) == 0)
		report(row, DOCTOR_OK, "kernel type information", "", "/sys/kernel/btf/vmlinux exists");
	else if (is_forbidden(errno))
		report(row, DOCTOR_FAIL, "kernel type information", "run as root, or give CAP_DAC_READ_SEARCH",
		       "/sys/kernel/btf/vmlinux exists, but cannot be read: %s", strerror(errno));
	else
		report(row, DOCTOR_FAIL, "kernel type information", "use a kernel that was built with CONFIG_DEBUG_INFO_BTF=y",
		       "/sys/kernel/btf/vmlinux: %s", strerror(errno));
}

static void examine_namespace(struct doctor_row *row)
{
	struct stat status;
	bool host = stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == 0xEFFFFFFCu; /* PROC_PID_INIT_INO */

	report(row, host ? DOCTOR_OK : DOCTOR_FAIL, "pid namespace",
	       host ? "" : "run the agent in the host's pid namespace (docker run --pid=host, hostPID: true)",
	       host ? "the host's" : "a container's: host processes cannot be identified");
}

static void examine_capabilities(struct doctor_row *row)
{
	cap_t now = cap_get_proc();
	char missing[160] = "";

	for (size_t i = 0; now && i < AGENT_CAPABILITY_COUNT; i++) {
		cap_flag_value_t there = CAP_CLEAR;
		cap_get_flag(now, agent_capabilities[i], CAP_EFFECTIVE, &there);
		if (there == CAP_SET)
			continue;
		char *name = cap_to_name(agent_capabilities[i]);
		size_t len = strlen(missing);
		snprintf(missing + len, sizeof(missing) - len, "%s%s", len ? ", " : "", name ? name : "?");
		cap_free(name);
	}
	cap_free(now);
	if (!missing[0])
		report(row, DOCTOR_OK, "privileges", "", "all capabilities that the agent needs");
	else
		report(row, DOCTOR_FAIL, "privileges",
		       "run as root, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_syslog,"
		       "cap_checkpoint_restore+ep $(command -v wick)",
		       "missing: %s", missing);
}

static void examine_paranoid(struct doctor_row *row)
{
	static const char path[] = "/proc/sys/kernel/perf_event_paranoid";
	long level = read_number(path, -100);

	if (level == -100 && access(path, F_OK) == 0)
		report(row, DOCTOR_WARN, "perf events", "run as root, or make /proc/sys readable in the container",
		       "%s exists, but cannot be read", path);
	else if (level == -100)
		report(row, DOCTOR_FAIL, "perf events", "use a kernel that was built with CONFIG_PERF_EVENTS=y",
		       "/proc/sys/kernel/perf_event_paranoid cannot be read");
	else
		report(row, DOCTOR_OK, "perf events", "", "perf_event_paranoid is %ld%s", level,
		       level > -1 ? ", which does not restrict root and CAP_PERFMON" : "");
}

static void examine_load(struct doctor_row *row)
{
	struct sampler_options options = {.frequency_hz = 19,
					  .ring_bytes = SAMPLER_RING_BYTES_MIN,
					  .seen_slots = 64,
					  .heap_bytes = UNWIND_CHUNK_BYTES,
					  .processes_max = 1};
	struct error error = {0};
	struct sampler *sampler = NULL;
	struct cpu_set online;
	int64_t start = time_monotonic_ns();

	int r = sampler_new(&options, &sampler, &error);
	if (r == 0)
		r = sampler_want_runtimes(sampler, &error);
	if (r == 0)
		r = cpu_set_read("online", &online, &error);
	if (r == 0)
		r = sampler_set_cpus(sampler, &online, &error);
	int64_t took = time_monotonic_ns() - start;
	sampler_free(sampler);
	if (r == 0)
		report(row, DOCTOR_OK, "sampling program", "", "loads and attaches in %d ms", (int)(took / NS_PER_MS));
	else
		report(row, DOCTOR_FAIL, "sampling program",
		       r == -EPERM ? "run as root or give the capabilities; a container needs a seccomp profile that allows "
				     "bpf and "
				     "perf_event_open"
				   : "",
		       "%s", error.message);
}

static void examine_pmu(struct doctor_row *row)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_HW_CPU_CYCLES,
				       .disabled = 1,
				       .exclude_hv = 1};
	_cleanup_(fd_closep) int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		report(row, DOCTOR_OK, "timer", "", "cpu-clock; a cycle counter is available too");
	else if (is_forbidden(errno))
		report(row, DOCTOR_OK, "timer", "",
		       "cpu-clock; whether there is a cycle counter cannot be detected without privileges (%s)",
		       strerror(errno));
	else
		report(row, DOCTOR_OK, "timer", "", "cpu-clock; no cycle counter (%s), as on most virtual machines",
		       strerror(errno));
}

static void examine_kallsyms(struct doctor_row *row)
{
	char line[128];
	_cleanup_(file_closep) FILE *file = fopen(kallsyms_path(), "re");
	int code = file ? 0 : errno;
	bool read = file && fgets(line, sizeof(line), file), hidden = true;

	/* The first symbols of a kernel may be at 0; all of the first hundred are only when addresses are hidden. */
	for (int i = 0; read && hidden && i < 100; i++) {
		hidden = strtoull(line, NULL, 16) == 0;
		if (!fgets(line, sizeof(line), file))
			break;
	}
	long restrict_level = read_number("/proc/sys/kernel/kptr_restrict", -1);
	if (read && !hidden)
		report(row, DOCTOR_OK, "kernel symbols", "", "/proc/kallsyms is readable (kptr_restrict is %ld)",
		       restrict_level);
	else if (code == ENOENT)
		report(row, DOCTOR_WARN, "kernel symbols",
		       "use a kernel that was built with CONFIG_KALLSYMS=y, or kernel functions are shown as addresses",
		       "there is no /proc/kallsyms");
	else
		report(row, DOCTOR_WARN, "kernel symbols",
		       "give CAP_SYSLOG and set kernel.kptr_restrict to 0 or 1, or kernel functions are shown as addresses",
		       "/proc/kallsyms %s (kptr_restrict is %ld)", read ? "hides addresses" : "cannot be read", restrict_level);
}

static void examine_map_files(struct doctor_row *row)
{
	char line[256], path[300];
	unsigned long long start, end;
	_cleanup_(file_closep) FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;
	int fd = -1;

	while (maps && !found && fgets(line, sizeof(line), maps)) /* the first that maps a file */
		found = strchr(line, '/') && sscanf(line, "%llx-%llx", &start, &end) == 2;
	if (found) {
		snprintf(path, sizeof(path), "/proc/self/map_files/%llx-%llx", start, end);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0 && (!found || errno == ENOENT)) {
		report(row, DOCTOR_WARN, "mapped files",
		       "mount a full /proc, of a kernel with /proc/PID/map_files, or symbols of deleted and replaced binaries "
		       "will be missing",
		       maps ? "there is no /proc/PID/map_files" : "there is no /proc/self/maps");
		return;
	}
	report(row, fd >= 0 ? DOCTOR_OK : DOCTOR_WARN, "mapped files",
	       fd >= 0 ? "" : "give CAP_CHECKPOINT_RESTORE, or symbols of deleted and replaced binaries will be missing",
	       fd >= 0 ? "deleted and replaced binaries can be read" : "/proc/PID/map_files cannot be opened: %s",
	       strerror(errno));
	fd_closep(&fd);
}

static void examine_cgroups(struct doctor_row *row)
{
	struct cgroups cgroups;

	int r = cgroups_init(&cgroups, NULL);
	if ((r < 0 || cgroups.root_fd < 0) && access("/sys/fs/cgroup", F_OK) == 0 && access("/sys/fs/cgroup", R_OK | X_OK) < 0)
		report(row, DOCTOR_WARN, "cgroups", "run as root, or give CAP_DAC_READ_SEARCH, or samples have no cgroup label",
		       "/sys/fs/cgroup exists, but cannot be read: %s", strerror(errno));
	else if (r < 0 || cgroups.root_fd < 0)
		report(row, DOCTOR_WARN, "cgroups", "mount cgroup2 on /sys/fs/cgroup, or samples have no cgroup label",
		       "no cgroup hierarchy below /sys/fs/cgroup");
	else
		report(row, DOCTOR_OK, "cgroups", "", "version %d, from %s", cgroups.v1 ? 1 : 2, cgroups.root);
	cgroups_release(&cgroups);
}

static void examine_limits(struct doctor_row *row)
{
	struct rlimit files = {0}, locked = {0};
	struct cpu_set online = {0};
	unsigned cpus = cpu_set_read("online", &online, NULL) == 0 ? cpu_set_count(&online) : 1;
	unsigned long need = 64 + 2ul * cpus;

	getrlimit(RLIMIT_NOFILE, &files);
	getrlimit(RLIMIT_MEMLOCK, &locked);
	if (files.rlim_cur < need)
		report(row, DOCTOR_FAIL, "limits", "raise the limit of open files (ulimit -n, LimitNOFILE=)",
		       "%lu open files allowed, %lu needed for %u CPUs", (unsigned long)files.rlim_cur, need, cpus);
	else
		report(row, DOCTOR_OK, "limits", "", "%lu open files; locked memory %s (irrelevant since Linux 5.11)",
		       (unsigned long)files.rlim_cur, locked.rlim_cur == RLIM_INFINITY ? "unlimited" : "limited");
}

static void examine_stats(struct doctor_row *row)
{
	long on = read_number("/proc/sys/kernel/bpf_stats_enabled", -1);
	report(row, DOCTOR_OK, "BPF statistics", "",
	       on > 0 ? "on: the time of each sample is measured, which costs a little"
		      : "off, as they should be in daily use");
}

static void examine_machine(struct doctor_row *row)
{
	struct cpu_set online = {0}, possible = {0};

	cpu_set_read("online", &online, NULL);
	cpu_set_read("possible", &possible, NULL);
	report(row, DOCTOR_OK, "machine", "", "%u CPUs online of %u possible, pages of %ld bytes", cpu_set_count(&online),
	       cpu_set_count(&possible), sysconf(_SC_PAGESIZE));
}

static void (*const examinations[])(struct doctor_row *) = {
	examine_kernel, examine_btf,   examine_namespace, examine_capabilities, examine_paranoid,
	examine_load,	examine_pmu,   examine_kallsyms,  examine_map_files,	examine_cgroups,
	examine_limits, examine_stats, examine_machine,
};
#define EXAMINATIONS (sizeof(examinations) / sizeof(*examinations))

size_t agent_examine(struct doctor_row *ret_rows, size_t max)
{
	size_t count = EXAMINATIONS < max ? EXAMINATIONS : max;
	for (size_t i = 0; i < count; i++)
		examinations[i](&ret_rows[i]);
	return count;
}

size_t agent_examine_faults(struct doctor_row *ret_rows, size_t max)
{
	size_t count = 0;
	for (size_t i = 0; i < EXAMINATIONS && count < max; i++) {
		if (examinations[i] == examine_load)
			continue;
		examinations[i](&ret_rows[count]);
		count += ret_rows[count].verdict != DOCTOR_OK;
	}
	return count;
}
