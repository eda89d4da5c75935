/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's whole protocol, over a socket pair, one request at a time:
 *
 *   request   struct request: which file of the list, or which address
 *   reply     int: 0 with a descriptor (SCM_RIGHTS), or a negative errno
 *
 * A server that was taken over can get nothing from it that it could not get at its start: the files are named by their place
 * in a list that was made by root, and are opened for reading; ports are compared with a list likewise. The broker reads
 * nothing else, appends to the audit log and nothing else, keeps two capabilities, and calls nothing but what this file needs.
 * Certificates are renewed under names in directories that are root's (/etc/letsencrypt/live), so the path is looked up each
 * time, by the rules of root's.
 *
 * Rejected: keeping CAP_DAC_READ_SEARCH in the server, which is all files of the machine; reading everything once at the start,
 * after which a token that is revoked stays good, and a certificate runs out.
 */
#include "base/privilege/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/privilege/user.h"
#include "base/thread.h"

#define BROKER_FD 3

enum { PORT = -1, APPEND = -2, ROTATE = -3 };
struct request {
	int32_t file; /* place in the list, or one of the above */
	uint32_t address_size;
	struct sockaddr_storage address;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct broker_grants granted;
static int broker_fd = -1;

/* ---- the broker ---- */

/* Pipes and devices are not what a list of certificates and tokens has, and would hold it up. */
static int open_file(const char *path)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

static uint16_t port_of(const struct request *request)
{
	const struct sockaddr *address = (const struct sockaddr *)&request->address;
	if (address->sa_family == AF_INET && request->address_size == sizeof(struct sockaddr_in))
		return ntohs(((const struct sockaddr_in *)address)->sin_port);
	if (address->sa_family == AF_INET6 && request->address_size == sizeof(struct sockaddr_in6))
		return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
	return 0;
}

static int bind_port(const struct request *request)
{
	uint16_t port = port_of(request);
	bool is_granted = false;
	int one = 1;
	for (size_t i = 0; i < BROKER_PORTS_MAX && port; i++)
		is_granted |= granted.ports[i] == port;
	if (!is_granted)
		return -EACCES;
	int fd = socket(request->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
	    bind(fd, (const struct sockaddr *)&request->address, request->address_size) == 0)
		return fd;
	int r = -errno;
	close(fd);
	return r;
}

static int open_log(void)
{
	struct stat status;
	if (!granted.log)
		return -EACCES;
	int fd = open(granted.log, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1)
		return fd;
	close(fd);
	return -EINVAL;
}

static int rotate_log(void)
{
	char old[PATH_MAX];
	if (!granted.log || snprintf(old, sizeof(old), "%s.1", granted.log) >= (int)sizeof(old))
		return -EACCES;
	return rename(granted.log, old) < 0 ? -errno : 0;
}

static int serve(const struct request *request)
{
	if (request->file == PORT)
		return bind_port(request);
	if (request->file == APPEND)
		return open_log();
	if (request->file < 0 || (size_t)request->file >= granted.file_count)
		return -EACCES;
	return open_file(granted.files[request->file]);
}

/* result: a descriptor if it is one, or 0; or a negative errno. */
static int reply(int socket, int result, bool is_descriptor)
{
	is_descriptor &= result >= 0;
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	int code = result < 0 ? result : 0;
	struct iovec part = {&code, sizeof(code)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (is_descriptor) {
		message.msg_control = control.space;
		message.msg_controllen = sizeof(control.space);
		control.header =
			(struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), &result, sizeof(result));
	}
	ssize_t n = TEMP_FAILURE_RETRY(sendmsg(socket, &message, MSG_NOSIGNAL));
	if (is_descriptor)
		close(result);
	return n < 0 ? -errno : 0;
}

static int confine(void)
{
	static const int calls[] = {
		SCMP_SYS(openat),     SCMP_SYS(newfstatat),	 SCMP_SYS(fstat),  SCMP_SYS(close),	  SCMP_SYS(read),
		SCMP_SYS(recvfrom),   SCMP_SYS(sendmsg),	 SCMP_SYS(socket), SCMP_SYS(setsockopt),  SCMP_SYS(bind),
		SCMP_SYS(exit_group), SCMP_SYS(restart_syscall), SCMP_SYS(rename), SCMP_SYS(rt_sigreturn)};
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int r = filter ? 0 : -ENOMEM;
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls) && r == 0; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

/* Ctrl-C reaches the whole process group; it ends when the server has. */
static _Noreturn void run(int socket)
{
	static const cap_value_t kept[] = {CAP_DAC_READ_SEARCH, CAP_NET_BIND_SERVICE};
	struct request request;
	prctl(PR_SET_NAME, "wick-broker");
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	for (int fd = 0; fd < 3; fd++) { /* whoever reads the server's output shall see its end */
		int null = open("/dev/null", O_RDWR);
		if (null >= 0 && null != fd)
			dup2(null, fd);
		if (null > 2)
			close(null);
	}
	/* Nothing else of the server's: pipes and sockets whose other ends wait for their end. */
	if (socket != BROKER_FD && dup2(socket, BROKER_FD) < 0)
		_exit(1);
	socket = BROKER_FD;
	close_range(BROKER_FD + 1, ~0u, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || user_keep_capabilities(kept, 2, NULL) < 0)
		_exit(1);
	confine(); /* where calls cannot be filtered it is as safe as the code above */
	while (TEMP_FAILURE_RETRY(recv(socket, &request, sizeof(request), 0)) == (ssize_t)sizeof(request) &&
	       request.address_size <= sizeof(request.address))
		if (request.file == ROTATE ? reply(socket, rotate_log(), false) < 0 : reply(socket, serve(&request), true) < 0)
			break;
	_exit(0);
}

/* ---- who asks ---- */

/* `descriptor`: that one comes. */
static int receive(bool descriptor)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	int code = 0, fd = -1;
	struct iovec part = {&code, sizeof(code)};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof(control.space)};
	if (TEMP_FAILURE_RETRY(recvmsg(broker_fd, &message, MSG_CMSG_CLOEXEC)) != (ssize_t)sizeof(code))
		return -EACCES;
	const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	return code < 0 || !descriptor ? code : fd >= 0 ? fd : -EACCES;
}

static int ask(const struct request *request)
{
	THREAD_LOCK_SCOPE(&lock);
	if (broker_fd < 0)
		return -EACCES;
	if (TEMP_FAILURE_RETRY(send(broker_fd, request, sizeof(*request), MSG_NOSIGNAL)) < 0)
		return -EACCES;
	return receive(request->file != ROTATE);
}

static int open_instead(const char *path)
{
	for (size_t i = 0; i < granted.file_count; i++)
		if (strcmp(granted.files[i], path) == 0)
			return ask(&(struct request){.file = (int32_t)i});
	return -EACCES;
}

int broker_append(const char *path)
{
	return granted.log && strcmp(granted.log, path) == 0 ? ask(&(struct request){.file = APPEND}) : -EACCES;
}

int broker_rotate(const char *path)
{
	return granted.log && strcmp(granted.log, path) == 0 ? ask(&(struct request){.file = ROTATE}) : -EACCES;
}

int broker_bind(const struct sockaddr *address, size_t size)
{
	struct request request = {.file = PORT, .address_size = (uint32_t)size};
	if (size > sizeof(request.address))
		return -EACCES;
	memcpy(&request.address, address, size);
	return ask(&request);
}

/* ---- starting ---- */

int broker_start(const struct broker_grants *grants, struct error *err)
{
	int ends[2];
	granted = *grants;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set_errno(err, -errno, "cannot create a socket");
	pid_t pid = fork();
	if (pid < 0) {
		int r = -errno;
		io_close(ends[0]);
		io_close(ends[1]);
		return error_set_errno(err, r, "cannot start a process");
	}
	if (pid == 0) {
		close(ends[0]);
		run(ends[1]);
	}
	io_close(ends[1]);
	broker_fd = ends[0];
	io_open_instead = open_instead;
	return 0;
}
