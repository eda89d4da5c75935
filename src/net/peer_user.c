/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose process is at the other end of a TCP connection of this machine.
 *
 * Unix sockets say it (SO_PEERCRED), TCP does not. But the other end is a socket of this network namespace, and the kernel
 * anybody the owner of each: by sock_diag(7), which finds one by its addresses within some 40 us, or, where that is filtered or
 * not built, in /proc/net/tcp, which lists all of them. The kernel takes 20 ms for that, whoever asks for how many, so it is
 * read a few times a second at most: it is the loop that waits.
 *
 * What makes it safe to rely on:
 *
 *   - A socket that was closed has no owner any more, and the kernel then says 0, which is root: sending a request and closing
 *     at once would make anybody root. Such a socket has no inode either (0), so what has none is nobody's.
 *   - A lookup that finds no such connection takes a listening socket of that address and port for it: all of both addresses
 *     must be those that were asked for.
 *   - The addresses are those of this connection as long as this end is in it. If the peer has reset it, another process may
 *     have them by now: so this end is looked at afterwards.
 *
 * The owner is the user that created the socket, in terms of this user namespace; one that it does not know is 65534. A
 * connection that something forwards (a proxy, sshd) is of that process: of sshd's, of the user who has logged in.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/time.h"
#include "net/net_int.h"

#define LIST_BYTES_MAX	 (8 * MIB) /* some 50,000 connections */
#define LISTS_PER_SECOND 20
enum { STATE_ESTABLISHED = 1, STATE_CLOSE_WAIT = 8 };

/* Of IPv4, if it is that in IPv6. */
struct end {
	int family;
	uint32_t address[4]; /* in network order; of IPv4 the first only */
	uint16_t port;	     /* likewise */
};

static int take_end(const struct sockaddr_storage *from, struct end *ret, struct error *err)
{
	const struct sockaddr_in *v4 = (const void *)from;
	const struct sockaddr_in6 *v6 = (const void *)from;
	*ret = (struct end){.family = from->ss_family};
	if (from->ss_family == AF_INET) {
		memcpy(ret->address, &v4->sin_addr, sizeof(v4->sin_addr));
		ret->port = v4->sin_port;
		return 0;
	}
	if (from->ss_family != AF_INET6)
		return error_set(err, -ENOTSUP, "it is not of TCP");
	ret->port = v6->sin6_port;
	memcpy(ret->address, &v6->sin6_addr, sizeof(v6->sin6_addr));
	if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		ret->family = AF_INET;
		ret->address[0] = ret->address[3];
		memset(ret->address + 1, 0, sizeof(ret->address) - sizeof(ret->address[0]));
	}
	return 0;
}

static int closed(struct error *err)
{
	return error_set(err, -ENOTCONN, "the client has closed it already");
}

/* ---- sock_diag ---- */

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 request;
};
struct answer {
	struct nlmsghdr head;
	union {
		struct inet_diag_msg found;
		struct nlmsgerr failure;
	};
	char attributes[512];
};

static int ask(const struct question *question, struct answer *ret, ssize_t *ret_len, struct error *err)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK}, from = {0};
	socklen_t from_len = sizeof(from);
	_cleanup_(fd_closep) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return error_set_errno(err, -errno, "cannot ask sock_diag");
	/* The kernel answers before it returns. */
	if (sendto(fd, question, sizeof(*question), 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return error_set_errno(err, -errno, "cannot ask sock_diag");
	*ret_len = recvfrom(fd, ret, sizeof(*ret), 0, (struct sockaddr *)&from, &from_len);
	if (*ret_len < (ssize_t)sizeof(ret->head) || from.nl_pid != 0)
		return error_set(err, -EIO, "sock_diag does not answer");
	return 0;
}

/* -ENOENT: there is no such socket, or the kernel has no module for this. */
static int find_by_diag(const struct end *peer, const struct end *own, unsigned *ret, struct error *err)
{
	struct question question = {
		.head = {.nlmsg_len = sizeof(question), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
		.request = {.sdiag_family = (uint8_t)peer->family,
			    .sdiag_protocol = IPPROTO_TCP,
			    .idiag_states = UINT32_MAX,
			    .id = {.idiag_sport = peer->port,
				   .idiag_dport = own->port,
				   .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
	struct answer answer = {0};
	ssize_t len = 0;
	memcpy(question.request.id.idiag_src, peer->address, sizeof(peer->address));
	memcpy(question.request.id.idiag_dst, own->address, sizeof(own->address));
	int r = ask(&question, &answer, &len, err);
	if (r < 0)
		return r;
	if (answer.head.nlmsg_type == NLMSG_ERROR && len >= (ssize_t)(sizeof(answer.head) + sizeof(answer.failure.error)))
		return error_set_errno(err, answer.failure.error < 0 ? answer.failure.error : -EIO,
				       "sock_diag finds no socket");
	const struct inet_diag_msg *found = &answer.found;
	if (answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || len < (ssize_t)(sizeof(answer.head) + sizeof(*found)))
		return error_set(err, -EIO, "sock_diag answers something else");
	if (found->id.idiag_sport != peer->port || found->id.idiag_dport != own->port || !found->idiag_inode)
		return closed(err);
	*ret = found->idiag_uid;
	return 0;
}

/* ---- /proc/net/tcp ---- */

#define END_TEXT_MAX 48
/* As the kernel writes it: words in the order of the machine. */
static void format_end(const struct end *end, bool in_ipv6, char out[static END_TEXT_MAX])
{
	unsigned port = ntohs(end->port);
	const uint32_t *a = end->address;
	if (end->family == AF_INET6)
		snprintf(out, END_TEXT_MAX, "%08X%08X%08X%08X:%04X", a[0], a[1], a[2], a[3], port);
	else if (in_ipv6)
		snprintf(out, END_TEXT_MAX, "0000000000000000%08X%08X:%04X", htonl(0xffff), a[0], port);
	else
		snprintf(out, END_TEXT_MAX, "%08X:%04X", a[0], port);
}

int peer_find_in_list(const char *list, const char *peer, const char *own, unsigned *ret, struct error *err)
{
	for (const char *line = list; line; line = strchr(line, '\n')) {
		char local[END_TEXT_MAX], remote[END_TEXT_MAX];
		unsigned uid;
		unsigned long inode;
		line += *line == '\n';
		if (sscanf(line, " %*u: %47[0-9A-F:] %47[0-9A-F:] %*x %*x:%*x %*x:%*x %*x %u %*u %lu", local, remote, &uid,
			   &inode) != 4 ||
		    strcmp(local, peer) != 0 || strcmp(remote, own) != 0)
			continue;
		if (!inode)
			return closed(err);
		*ret = uid;
		return 0;
	}
	return error_set(err, -ENOENT, "the other end is not a socket of this network namespace");
}

static int find_in_file(const char *path, const struct end *peer, const struct end *own, bool in_ipv6, unsigned *ret,
			struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	char there[END_TEXT_MAX], here[END_TEXT_MAX];
	format_end(peer, in_ipv6, there);
	format_end(own, in_ipv6, here);
	int r = io_read_file(path, LIST_BYTES_MAX, &text, err);
	const char *list = r < 0 ? NULL : buffer_string(&text);
	return r < 0 ? r : list ? peer_find_in_list(list, there, here, ret, err) : error_nomem(err);
}

/* Other threads count, too: no more than that. */
static bool may_list(void)
{
	static _Atomic uint64_t window; /* its second, and how often in it */
	uint64_t second = (uint64_t)(time_monotonic_ns() / NS_PER_S), before = atomic_load(&window), after;
	do {
		uint64_t count = before >> 8 == second ? before & 0xff : 0;
		if (count >= LISTS_PER_SECOND)
			return false;
		after = second << 8 | (count + 1);
	} while (!atomic_compare_exchange_weak(&window, &before, after));
	return true;
}

static int find_in_lists(const struct end *peer, const struct end *own, unsigned *ret, struct error *err)
{
	int r = peer->family == AF_INET ? find_in_file("/proc/net/tcp", peer, own, false, ret, err) : -ENOENT;
	/* A socket of IPv6 may be connected to an address of IPv4. */
	return r == -ENOENT ? find_in_file("/proc/net/tcp6", peer, own, true, ret, err) : r;
}

/* ---- both ---- */

/* Not reset: then the addresses may be another's by now. */
static bool is_connected(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
	       (info.tcpi_state == STATE_ESTABLISHED || info.tcpi_state == STATE_CLOSE_WAIT);
}

static int find_ends(int fd, struct end *ret_peer, struct end *ret_own, struct error *err)
{
	struct sockaddr_storage addresses[2];
	socklen_t lengths[2] = {sizeof(addresses[0]), sizeof(addresses[1])};
	if (getpeername(fd, (struct sockaddr *)&addresses[0], &lengths[0]) < 0 ||
	    getsockname(fd, (struct sockaddr *)&addresses[1], &lengths[1]) < 0)
		return closed(err);
	int r = take_end(&addresses[0], ret_peer, err);
	if (r == 0)
		r = take_end(&addresses[1], ret_own, err);
	if (r == 0 && ret_peer->family != ret_own->family)
		r = error_set(err, -ENOTSUP, "its ends are not of one family");
	return r;
}

int peer_find_user_in_lists(int fd, unsigned *ret, struct error *err)
{
	struct end peer, own;
	int r = find_ends(fd, &peer, &own, err);
	return r < 0 ? r : find_in_lists(&peer, &own, ret, err);
}

int peer_find_user(int fd, unsigned *ret, struct error *err)
{
	static atomic_bool has_diag; /* so that what it does not find is not looked for in the list */
	struct end peer, own;
	unsigned uid = 0;
	int r = find_ends(fd, &peer, &own, err);
	if (r < 0)
		return r;
	r = find_by_diag(&peer, &own, &uid, err);
	if (r == 0 || r == -ENOTCONN)
		atomic_store_explicit(&has_diag, true, memory_order_relaxed);
	else if (!atomic_load_explicit(&has_diag, memory_order_relaxed) || r != -ENOENT)
		r = may_list() ? find_in_lists(&peer, &own, &uid, err)
			       : error_set(err, -EAGAIN, "too many connections at once; try again in a second");
	if (r == 0 && !is_connected(fd))
		r = closed(err);
	if (r == 0)
		*ret = uid;
	return r;
}
