/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process may do when it has been taken over.
 *
 * System calls. A list of those that are allowed, not of those that are forbidden: the kernel gets new ones. It is one list for
 * servers, workers that they start, and git, since a filter is inherited; agents add theirs. Left out is what serves a takeover
 * and nobody else: ptrace, mount, namespaces, modules, keys, other processes' memory, io_uring, userfaultfd, personalities.
 *
 * A call that is not on the list raises SIGSYS (SECCOMP_RET_TRAP), whose handler writes the name of the call into the log and
 * makes the call fail with EPERM. The alternatives were
 *
 *   killing the process   a new libc that tries a call which it can do without would end a server that people depend on; what
 *                         was asked for does not happen in either case
 *   EPERM by the kernel   nobody would know: a feature fails somewhere else, for no reason that anybody sees
 *
 * Calls for another architecture's table kill: nobody makes them by mistake. Some calls fail without a line: clone3, whose
 * flags a filter cannot see, as if the kernel did not have it, so that libc takes clone, whose flags it can see; io_uring,
 * which libraries try and go on without; and memory that is writable and executable at once, which pcre2 does without.
 *
 * Threads that block all signals leave out SIGSYS (base/thread.c); in one that blocks it the kernel kills the process instead.
 * Programs that are started lose the handler: those that are wick install it again (confine_inherited()), others die of SIGSYS,
 * which their parent reports.
 *
 * Files. Landlock confines writing to directories that are named, and executing to programs that are named. The rules are those
 * of the kernel's version (5.19 to 6.12): what it does not know is not asked for.
 */
#include "base/privilege/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/io.h"
#include "base/time.h"

int confine_no_new_privileges(struct error *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set_errno(err, -errno, "cannot set no_new_privs");
	return 0;
}

/* ---- files ---- */

#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ull << 13)
#endif
#define ACCESS_TRUNCATE (1ull << 14) /* ABI 3 */
#define SCOPE_SIGNAL	(1ull << 1)  /* ABI 6 */
#define ABI_REFER	2
#define ABI_TRUNCATE	3
#define ABI_SCOPE	6
#define FILE_RIGHTS                                                                                                            \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | ACCESS_TRUNCATE)
#define READ_RIGHTS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_RIGHTS                                                                                                           \
	(READ_RIGHTS | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |        \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SYM |                             \
	 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_REFER | ACCESS_TRUNCATE)
/* Nobody gets devices made. */
#define ALL_RIGHTS (WRITE_RIGHTS | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

/* struct landlock_ruleset_attr of Linux 6.12; older kernels take the beginning of it. */
struct ruleset {
	uint64_t files, network, scoped;
};

static uint64_t known_rights(long abi, uint64_t rights)
{
	return abi < ABI_TRUNCATE ? rights & ~ACCESS_TRUNCATE : rights;
}

static int allow_path(int ruleset, long abi, const struct confine_path *path, struct error *err)
{
	struct stat status;
	if (!path->path || !*path->path)
		return 0;
	_cleanup_(fd_closep) int fd = open(path->path, O_PATH | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	if (fd < 0 || fstat(fd, &status) < 0)
		return error_set_errno(err, -errno, "cannot open %s", path->path);
	uint64_t rights = path->access & CONFINE_READ ? READ_RIGHTS : 0;
	if (path->access & CONFINE_WRITE)
		rights |= WRITE_RIGHTS;
	if (path->access & CONFINE_EXECUTE)
		rights |= LANDLOCK_ACCESS_FS_EXECUTE | READ_RIGHTS;
	if (!S_ISDIR(status.st_mode))
		rights &= FILE_RIGHTS;
	struct landlock_path_beneath_attr rule = {.allowed_access = known_rights(abi, rights), .parent_fd = fd};
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return error_set_errno(err, -errno, "cannot confine files to %s", path->path);
	return 0;
}

int confine_files(const struct confine_path *paths, size_t count, struct error *err)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < ABI_REFER)
		return CONFINE_ABSENT;
	const struct ruleset wanted = {.files = known_rights(abi, ALL_RIGHTS), .scoped = abi < ABI_SCOPE ? 0 : SCOPE_SIGNAL};
	size_t size = abi < ABI_SCOPE ? sizeof(wanted.files) : sizeof(wanted);
	_cleanup_(fd_closep) int ruleset = (int)syscall(SYS_landlock_create_ruleset, &wanted, size, 0);
	if (ruleset < 0)
		return error_set_errno(err, -errno, "cannot confine files");
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++)
		r = allow_path(ruleset, abi, &paths[i], err);
	if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		r = error_set_errno(err, -errno, "cannot confine files");
	return r;
}

/* ---- what is refused ---- */

#define CALLS_MAX 512
#define NAME_SIZE 28
/* Made before the filter: the handler may interrupt anything, also malloc(). */
static char call_names[CALLS_MAX][NAME_SIZE];
static atomic_bool reported[CALLS_MAX];

static void write_refusal(int number)
{
	char line[320], now[TIME_TEXT_MAX];
	const char *name = number >= 0 && number < CALLS_MAX && *call_names[number] ? call_names[number] : "unknown";
	int len = snprintf(line, sizeof(line),
			   "%s error the system call %s (%d) is not among those that this process may make, and failed; if "
			   "something does not work for that, --no-sandbox (or 'sandbox: false') lifts it: please report it\n",
			   time_format(time_now_ns(), now), name, number);
	(void)!write(STDERR_FILENO, line, (size_t)len);
}

static void on_refused(int signal_number, siginfo_t *info, void *context)
{
	int saved = errno, number = info->si_syscall;
	if (info->si_code != 1 /* SYS_SECCOMP */) {
		signal(SIGSYS, SIG_DFL);
		raise(SIGSYS);
		return;
	}
	if (number < 0 || number >= CALLS_MAX || !atomic_exchange(&reported[number], true))
		write_refusal(number);
	ucontext_t *state = context;
#if defined(__x86_64__)
	state->uc_mcontext.gregs[REG_RAX] = -EPERM;
#elif defined(__aarch64__)
	state->uc_mcontext.regs[0] = (unsigned long long)-EPERM;
#else
#error "say where this architecture has the result of a system call"
#endif
	errno = saved;
}

static int catch_refusals(struct error *err)
{
	for (int i = 0; i < CALLS_MAX; i++) {
		char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, i);
		snprintf(call_names[i], NAME_SIZE, "%s", name ? name : "");
		free(name);
	}
	struct sigaction action = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO};
	if (sigaction(SIGSYS, &action, NULL) < 0)
		return error_set_errno(err, -errno, "cannot catch SIGSYS");
	return 0;
}

void confine_inherited(void)
{
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER)
		catch_refusals(NULL);
}

/* ---- system calls ---- */

static const int allowed[] = {
	/* files */
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(pread64),
	SCMP_SYS(pwrite64),
	SCMP_SYS(readv),
	SCMP_SYS(writev),
	SCMP_SYS(preadv),
	SCMP_SYS(pwritev),
	SCMP_SYS(preadv2),
	SCMP_SYS(pwritev2),
	SCMP_SYS(lseek),
	SCMP_SYS(sendfile),
	SCMP_SYS(copy_file_range),
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(openat2),
	SCMP_SYS(creat),
	SCMP_SYS(close),
	SCMP_SYS(close_range),
	SCMP_SYS(dup),
	SCMP_SYS(dup2),
	SCMP_SYS(dup3),
	SCMP_SYS(fcntl),
	SCMP_SYS(flock),
	SCMP_SYS(stat),
	SCMP_SYS(lstat),
	SCMP_SYS(fstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(statx),
	SCMP_SYS(statfs),
	SCMP_SYS(fstatfs),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(getdents64),
	SCMP_SYS(getdents),
	SCMP_SYS(getcwd),
	SCMP_SYS(chdir),
	SCMP_SYS(fchdir),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(mkdir),
	SCMP_SYS(mkdirat),
	SCMP_SYS(rmdir),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(rename),
	SCMP_SYS(renameat),
	SCMP_SYS(renameat2),
	SCMP_SYS(link),
	SCMP_SYS(linkat),
	SCMP_SYS(symlink),
	SCMP_SYS(symlinkat),
	SCMP_SYS(chmod),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchmodat),
	SCMP_SYS(umask),
	SCMP_SYS(utimensat),
	SCMP_SYS(utime),
	SCMP_SYS(utimes),
	SCMP_SYS(truncate),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate),
	SCMP_SYS(fsync),
	SCMP_SYS(fdatasync),
	SCMP_SYS(sync_file_range),
	SCMP_SYS(syncfs),
	SCMP_SYS(fadvise64),
	SCMP_SYS(readahead),
	SCMP_SYS(getxattr),
	SCMP_SYS(lgetxattr),
	SCMP_SYS(fgetxattr),
	SCMP_SYS(listxattr),
	SCMP_SYS(llistxattr),
	SCMP_SYS(flistxattr),
	SCMP_SYS(setxattr),
	SCMP_SYS(lsetxattr),
	SCMP_SYS(fsetxattr),
	SCMP_SYS(removexattr),
	SCMP_SYS(lremovexattr),
	SCMP_SYS(fremovexattr),
	SCMP_SYS(memfd_create),
	SCMP_SYS(pipe),
	SCMP_SYS(pipe2),
	SCMP_SYS(splice),
	SCMP_SYS(tee),
	SCMP_SYS(inotify_init1),
	SCMP_SYS(inotify_add_watch),
	SCMP_SYS(inotify_rm_watch),
	/* memory */
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(brk),
	SCMP_SYS(madvise),
	SCMP_SYS(msync),
	SCMP_SYS(mincore),
	SCMP_SYS(mlock),
	SCMP_SYS(mlock2),
	SCMP_SYS(munlock),
	SCMP_SYS(membarrier),
	SCMP_SYS(get_mempolicy),
	/* waiting */
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(select),
	SCMP_SYS(pselect6),
	SCMP_SYS(epoll_create),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(eventfd),
	SCMP_SYS(eventfd2),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(timerfd_gettime),
	SCMP_SYS(timer_create),
	SCMP_SYS(timer_settime),
	SCMP_SYS(timer_gettime),
	SCMP_SYS(timer_delete),
	SCMP_SYS(timer_getoverrun),
	SCMP_SYS(setitimer),
	SCMP_SYS(getitimer),
	SCMP_SYS(alarm),
	SCMP_SYS(nanosleep),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_getres),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(times),
	SCMP_SYS(futex),
	SCMP_SYS(futex_waitv),
	SCMP_SYS(pause),
	SCMP_SYS(restart_syscall),
	/* network */
	SCMP_SYS(bind),
	SCMP_SYS(listen),
	SCMP_SYS(accept),
	SCMP_SYS(accept4),
	SCMP_SYS(connect),
	SCMP_SYS(shutdown),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	SCMP_SYS(sendto),
	SCMP_SYS(recvfrom),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendmmsg),
	SCMP_SYS(recvmmsg),
	/* processes: workers and git, and threads */
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
	SCMP_SYS(execve),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(wait4),
	SCMP_SYS(waitid),
	SCMP_SYS(kill),
	SCMP_SYS(tkill),
	SCMP_SYS(tgkill),
	SCMP_SYS(pidfd_open),
	SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(rt_sigpending),
	SCMP_SYS(rt_sigsuspend),
	SCMP_SYS(rt_sigqueueinfo),
	SCMP_SYS(rt_tgsigqueueinfo),
	SCMP_SYS(signalfd4),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(getpid),
	SCMP_SYS(getppid),
	SCMP_SYS(gettid),
	SCMP_SYS(getpgid),
	SCMP_SYS(getpgrp),
	SCMP_SYS(getsid),
	SCMP_SYS(setpgid),
	SCMP_SYS(setsid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getresuid),
	SCMP_SYS(getresgid),
	SCMP_SYS(getgroups),
	SCMP_SYS(prctl),
	SCMP_SYS(arch_prctl),
	SCMP_SYS(set_tid_address),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(get_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_setaffinity),
	SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_getscheduler),
	SCMP_SYS(sched_setscheduler),
	SCMP_SYS(sched_getattr),
	SCMP_SYS(sched_setattr),
	SCMP_SYS(sched_get_priority_max),
	SCMP_SYS(sched_get_priority_min),
	SCMP_SYS(getcpu),
	SCMP_SYS(getpriority),
	SCMP_SYS(setpriority),
	SCMP_SYS(ioprio_set),
	SCMP_SYS(prlimit64),
	SCMP_SYS(getrlimit),
	SCMP_SYS(setrlimit),
	SCMP_SYS(getrusage),
	SCMP_SYS(sysinfo),
	SCMP_SYS(uname),
	SCMP_SYS(getrandom),
	SCMP_SYS(capget),
	/* Giving up more: the workers' own filter, user and capabilities. */
	SCMP_SYS(seccomp),
	SCMP_SYS(capset),
	SCMP_SYS(setgroups),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
	SCMP_SYS(landlock_create_ruleset),
	SCMP_SYS(landlock_add_rule),
	SCMP_SYS(landlock_restrict_self),
#if defined(__SANITIZE_ADDRESS__) /* the search for leaks at the end */
	SCMP_SYS(ptrace),
	SCMP_SYS(personality),
#endif
};
/* What libraries try, and do without. */
static const struct {
	int call, code;
} refused_quietly[] = {
	{SCMP_SYS(clone3), ENOSYS},
	{SCMP_SYS(io_uring_setup), ENOSYS},
	{SCMP_SYS(io_uring_enter), ENOSYS},
	{SCMP_SYS(io_uring_register), ENOSYS},
};

/* EDOM: this architecture has no such call. */
static int add(scmp_filter_ctx filter, uint32_t action, int call)
{
	int r = seccomp_rule_add(filter, action, call, 0);
	return r == -EDOM ? 0 : r;
}

static int allow_listed(scmp_filter_ctx filter, const int *calls, size_t count)
{
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++)
		r = add(filter, SCMP_ACT_ALLOW, calls[i]);
	return r;
}

/* Also of children, which their loader has to map libraries for: code, but none that can be written. */
static int allow_memory(scmp_filter_ctx filter)
{
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
				     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC | PROT_WRITE, PROT_EXEC));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 1,
				     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC | PROT_WRITE, PROT_EXEC | PROT_WRITE));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mprotect), 1,
				     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC));
	return r;
}

/* No new namespaces; threads, fork and vfork have none of these flags. */
static int allow_clone(scmp_filter_ctx filter)
{
	const uint64_t namespaces =
		CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces, 0));
}

/* Pipes with a name and plain files, no devices. */
static int allow_nodes(scmp_filter_ctx filter)
{
	static const uint64_t kinds[] = {S_IFIFO, S_IFREG, 0};
	int r = 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && r == 0; i++) {
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mknod), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, S_IFMT, kinds[i]));
		if (r == 0)
			r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mknodat), 1,
					     SCMP_A2(SCMP_CMP_MASKED_EQ, S_IFMT, kinds[i]));
	}
	return r;
}

static int allow_sockets(scmp_filter_ctx filter)
{
	static const uint64_t families[] = {AF_UNIX, AF_INET, AF_INET6};
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
	for (size_t i = 0; i < sizeof(families) / sizeof(*families) && r == 0; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, families[i]));
	/* Whose process a client on this machine is (net/peer_user.c). */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
				     SCMP_A2(SCMP_CMP_EQ, NETLINK_SOCK_DIAG));
	/* libc asks for the addresses of this host that way when it sorts those of a name, and does without. */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 2,
				     SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_NE, NETLINK_SOCK_DIAG));
	return r;
}

static int allow_ioctls(scmp_filter_ctx filter, bool perf)
{
	static const uint64_t commands[] = {FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, TIOCOUTQ, TCGETS, TIOCGWINSZ};
	int r = 0;
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands) && r == 0; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1, SCMP_A1(SCMP_CMP_EQ, commands[i]));
	if (r == 0 && perf) /* all of their type */
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				     SCMP_A1(SCMP_CMP_MASKED_EQ, 0xff00, (uint64_t)'$' << 8));
	return r;
}

static int fill(scmp_filter_ctx filter, const struct confine_calls *calls)
{
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* Kernels before 5.16 would slow down all code of a filtered process, against leaks between what runs in one process.
	 */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	/* A search instead of a comparison with one after the other. */
	if (r == 0)
		seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (r == 0)
		r = allow_listed(filter, allowed, sizeof(allowed) / sizeof(*allowed));
	if (r == 0)
		r = allow_listed(filter, calls->more, calls->more_count);
	if (r == 0)
		r = allow_memory(filter);
	if (r == 0)
		r = allow_clone(filter);
	if (r == 0)
		r = allow_sockets(filter);
	if (r == 0)
		r = allow_nodes(filter);
	if (r == 0)
		r = allow_ioctls(filter, calls->perf_ioctls);
	for (size_t i = 0; i < sizeof(refused_quietly) / sizeof(*refused_quietly) && r == 0; i++)
		r = add(filter, SCMP_ACT_ERRNO((uint32_t)refused_quietly[i].code), refused_quietly[i].call);
	return r;
}

int confine_calls(const struct confine_calls *calls, struct error *err)
{
	int r = catch_refusals(err);
	if (r < 0)
		return r;
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_TRAP);
	if (!filter)
		return error_nomem(err);
	r = fill(filter, calls);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	if (r < 0)
		return error_set(err, -ENOSYS, "system calls cannot be filtered here: seccomp fails with error %d", -r);
	return 0;
}
