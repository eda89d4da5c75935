// SPDX-License-Identifier: Apache-2.0
/*
 * A process that can compute, read descriptors that it is given, write one, and talk through one socket.
 *
 * Parsers of debug information are large, and the files come from whoever may send profiles. What stands between a parser that
 * was taken over and the machine, from outside to inside:
 *
 *   user            nobody, without groups and capabilities, if the process was root's; nobody who may signal others
 *   rlimits         address space, processor time, size of files, number of descriptors; no processes, no core files
 *   no_new_privs    setuid programs would not help, even if one could be run
 *   not dumpable    other processes of the same user cannot trace it
 *   system calls    a list of those that computing, reading and writing need; see rules[] below
 *
 * A call that is not on the list raises SIGSYS, whose handler says which call it was and ends the process; a reason that can be
 * acted on is worth more than the instant death that the kernel offers instead, and what was asked for does not happen in
 * either case. The handler cannot be replaced (rt_sigaction is not on the list), and a blocked SIGSYS kills. Calls for another
 * architecture's table kill at once.
 *
 * Opening files by name is refused with ENOENT, not punished: libraries look for files on their own (libc for the number of
 * processors), and go on without. Memory can become executable in no way: mmap and mprotect with PROT_EXEC are not on the list.
 * memfd_create is not either: its pages count for no limit of the process.
 *
 * What remains: fstat() is newfstatat() in libc, whose path the filter cannot see, so that a worker that was taken over can ask
 * whether a file exists and how large it is. It has nobody to tell but the table that it writes.
 *
 * Namespaces were considered: unprivileged ones are switched off on many machines, a privileged server may be confined to what
 * it has, and there is nothing left that they would hide.
 */
#include "symbol/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/limits.h"

#define NOBODY	    65534
#define STACK_BYTES (8 * MIB)

/* ---- user and capabilities ---- */

static bool has_capabilities(void)
{
	static const cap_value_t needed[] = {CAP_SETUID, CAP_SETGID, CAP_KILL};
	cap_t caps = cap_get_proc();
	bool has_all = caps != NULL;
	for (size_t i = 0; has_all && i < sizeof(needed) / sizeof(*needed); i++) {
		cap_flag_value_t value;
		has_all = cap_get_flag(caps, needed[i], CAP_EFFECTIVE, &value) == 0 && value == CAP_SET;
	}
	if (caps)
		cap_free(caps);
	return has_all;
}

/* Root in a container may be unable to become anybody else (one user in the namespace, no capabilities), or, without CAP_KILL,
 * to end a process of somebody else's: it stays who it is then, without capabilities. */
static void leave_user(void)
{
	if (geteuid() != 0 || !has_capabilities() || setgroups(0, NULL) < 0)
		return;
	if (setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0)
		(void)!setresgid(0, 0, 0);
}

static int drop_capabilities(struct error *err)
{
	cap_t none = cap_init(), now = cap_get_proc();
	/* Where there is nothing to drop, a filter (of a systemd unit) may forbid capset(). */
	int r = none && now && (cap_compare(none, now) == 0 || cap_set_proc(none) == 0) ? 0 : -errno;
	if (none)
		cap_free(none);
	if (now)
		cap_free(now);
	return r < 0 ? error_set_errno(err, -ENOSYS, "cannot drop capabilities (error %d)", -r) : 0;
}

/* ---- limits ---- */

static int limit(int resource, uint64_t soft, uint64_t hard, const char *name, struct error *err)
{
	struct rlimit now, wanted = {.rlim_cur = soft, .rlim_max = hard};
	if (getrlimit((__rlimit_resource_t)resource, &now) < 0)
		return error_set_errno(err, -errno, "cannot limit %s", name);
	if (wanted.rlim_max > now.rlim_max)
		wanted.rlim_max = now.rlim_max;
	if (wanted.rlim_cur > wanted.rlim_max)
		wanted.rlim_cur = wanted.rlim_max;
	if (setrlimit((__rlimit_resource_t)resource, &wanted) < 0)
		return error_set_errno(err, -errno, "cannot limit %s", name);
	return 0;
}

static int set_limits(const struct sandbox_limits *limits, struct error *err)
{
	const struct {
		int resource;
		uint64_t soft, hard;
		const char *name;
	} wanted[] = {
		{RLIMIT_AS, limits->memory_bytes, limits->memory_bytes, "memory"}, /* first: see below */
		{RLIMIT_CPU, limits->cpu_s, limits->cpu_s + 2, "CPU time"},
		{RLIMIT_FSIZE, limits->output_bytes, limits->output_bytes, "output"},
		{RLIMIT_NOFILE, limits->descriptors, limits->descriptors, "descriptors"},
		{RLIMIT_STACK, STACK_BYTES, STACK_BYTES, "stack"},
		{RLIMIT_NPROC, 0, 0, "processes"},
		{RLIMIT_CORE, 0, 0, "core files"},
	};
	int r = 0;
	/* A write past the limit is then an error instead of a signal. */
	signal(SIGXFSZ, SIG_IGN);
	for (size_t i = SANDBOX_HAS_MEMORY_LIMIT ? 0 : 1; i < sizeof(wanted) / sizeof(*wanted) && r == 0; i++)
		r = limit(wanted[i].resource, wanted[i].soft, wanted[i].hard, wanted[i].name, err);
	return r;
}

/* ---- system calls ---- */

static void (*violation_handler)(int system_call);

static void handle_violation(int signal_number, siginfo_t *info, void *context)
{
	violation_handler(info->si_syscall);
	_exit(128 + SIGSYS);
}

static int catch_violations(void (*handler)(int), struct error *err)
{
	struct sigaction action = {.sa_sigaction = handle_violation, .sa_flags = SA_SIGINFO};
	violation_handler = handler;
	if (sigaction(SIGSYS, &action, NULL) < 0)
		return error_set_errno(err, -errno, "cannot catch SIGSYS");
	/* Sanitizers catch these to print what they cannot print here. */
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		signal(faults[i], SIG_DFL);
	return 0;
}

static const int allowed[] = {
	SCMP_SYS(read),	       SCMP_SYS(pread64),     SCMP_SYS(readv),	       SCMP_SYS(preadv),
	SCMP_SYS(write),       SCMP_SYS(pwrite64),    SCMP_SYS(writev),	       SCMP_SYS(ftruncate),
	SCMP_SYS(lseek),       SCMP_SYS(fstat),	      SCMP_SYS(close),	       SCMP_SYS(munmap),
	SCMP_SYS(mremap),      SCMP_SYS(brk),	      SCMP_SYS(madvise),       SCMP_SYS(recvmsg),
	SCMP_SYS(sendmsg),     SCMP_SYS(futex),	      SCMP_SYS(clock_gettime), SCMP_SYS(getrandom),
	SCMP_SYS(exit_group),  SCMP_SYS(exit),	      SCMP_SYS(rt_sigreturn),  SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(getpid),      SCMP_SYS(gettid),      SCMP_SYS(getppid),       SCMP_SYS(restart_syscall),
	SCMP_SYS(sysinfo), /* qsort() asks for the size of memory */
#if !SANDBOX_HAS_MEMORY_LIMIT
	SCMP_SYS(sigaltstack), SCMP_SYS(sched_yield),
#endif
};
static const struct {
	int call, code;
} refused[] = {
	{SCMP_SYS(open), ENOENT},
	{SCMP_SYS(openat), ENOENT},
	{SCMP_SYS(access), ENOENT},
	{SCMP_SYS(faccessat), ENOENT},
	{SCMP_SYS(stat), ENOENT},
	{SCMP_SYS(lstat), ENOENT},
	{SCMP_SYS(readlink), ENOENT},
	{SCMP_SYS(readlinkat), ENOENT},
	{SCMP_SYS(statx), ENOSYS},
	{SCMP_SYS(ioctl), ENOTTY},
	{SCMP_SYS(prlimit64), EPERM},
	{SCMP_SYS(getrlimit), EPERM},
	{SCMP_SYS(sched_getaffinity), EPERM},
};

static int allow_simple(scmp_filter_ctx filter)
{
	for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++) {
		int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
		if (r < 0 && r != -EDOM) /* EDOM: this architecture has no such call */
			return r;
	}
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		int r = seccomp_rule_add(filter, SCMP_ACT_ERRNO((unsigned)refused[i].code), refused[i].call, 0);
		if (r < 0 && r != -EDOM)
			return r;
	}
	return 0;
}

static int allow_with_conditions(scmp_filter_ctx filter)
{
	static const unsigned commands[] = {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC};
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(newfstatat), 1, SCMP_A3(SCMP_CMP_EQ, AT_EMPTY_PATH));
	/* Of abort(). Not to anybody else: the parent may be the same user's. */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	for (size_t i = 0; r == 0 && i < sizeof(commands) / sizeof(*commands); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1, SCMP_A1(SCMP_CMP_EQ, commands[i]));
	return r;
}

static int filter_system_calls(struct error *err)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_TRAP);
	if (!filter)
		return error_nomem(err);
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r == 0)
		r = allow_simple(filter);
	if (r == 0)
		r = allow_with_conditions(filter);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	if (r < 0)
		error_set(err, -ENOSYS, "system calls cannot be filtered here: seccomp fails with error %d", -r);
	return r < 0 ? -ENOSYS : 0;
}

int sandbox_enter(const struct sandbox_limits *limits, struct error *err)
{
	/* More heaps need the number of processors, which is in a file, and nothing here runs beside anything else. */
	mallopt(M_ARENA_MAX, 1);
	leave_user();
	int r = drop_capabilities(err);
	if (r == 0)
		r = catch_violations(limits->on_violation, err);
	if (r == 0)
		r = set_limits(limits, err);
	if (r < 0)
		return r;
	/* Changing the user undoes these, so not before. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set_errno(err, -ENOSYS, "prctl fails with error %d", errno);
	return filter_system_calls(err);
}
