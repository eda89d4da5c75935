/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "export/export.h"

/* Room for the control message that carries one descriptor, aligned as the kernel wants it. */
union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

void link_target_of(const struct export_stats *stats, struct link_target *ret)
{
	*ret = (struct link_target){.profiles = stats->sent_profiles,
				    .samples = stats->sent_samples,
				    .bytes = stats->sent_bytes,
				    .failures = stats->failures,
				    .waiting_profiles = stats->spool.profiles,
				    .waiting_samples = stats->spool.samples,
				    .waiting_bytes = stats->spool.bytes,
				    .away = stats->away};
	_Static_assert(EXPORT_LOSSES <= LINK_REASONS_MAX, "a reason without room");
	snprintf(ret->name, sizeof(ret->name), "%s", stats->name);
	for (size_t i = 0; i < EXPORT_LOSSES; i++)
		export_lost(stats, i, &ret->lost_profiles[i], &ret->lost_samples[i]);
}

int link_new(int ret_fds[2], struct error *err)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_fds) < 0)
		return error_set_errno(err, -errno, "cannot create a socket pair");
	int size = 1 << 20;
	setsockopt(ret_fds[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)); /* a wish: smaller only drops messages sooner */
	return 0;
}

int link_send(int link_fd, const struct link_message *message, int fd)
{
	struct iovec part = {.iov_base = (void *)message, .iov_len = sizeof(*message)};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	union control control;
	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		header.msg_control = control.bytes;
		header.msg_controllen = sizeof(control.bytes);
		struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	}
	if (sendmsg(link_fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)
		return -EAGAIN;
	return errno == ECONNRESET ? -EPIPE : -errno; /* reset: it went away with messages unread */
}

/* Takes the descriptor out of a received control message, and closes any that should not be there. */
static int take_fd(struct msghdr *header)
{
	int taken = -1;
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg; cmsg = CMSG_NXTHDR(header, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
			if (taken < 0)
				taken = fd;
			else
				io_close(fd);
		}
	}
	return taken;
}

static bool message_is_sound(struct link_message *message, ssize_t len)
{
	if (len != (ssize_t)sizeof(*message))
		return false;
	if (message->kind == LINK_BINARY) {
		message->binary.build_id[sizeof(message->binary.build_id) - 1] = 0;
		message->binary.content[sizeof(message->binary.content) - 1] = 0;
		message->binary.path[sizeof(message->binary.path) - 1] = 0;
		return true;
	}
	if (message->kind != LINK_STATS || message->stats.loss_count > LINK_LOSSES_MAX ||
	    message->stats.target_count > LINK_TARGETS_MAX || message->stats.walk_count > LINK_WALKS_MAX ||
	    message->stats.jit_problem_count > LINK_LOSSES_MAX || message->stats.cost_count > LINK_LOSSES_MAX)
		return false;
	message->stats.event[sizeof(message->stats.event) - 1] = 0;
	for (size_t i = 0; i < LINK_LOSSES_MAX; i++) {
		message->stats.losses[i].name[sizeof(message->stats.losses[i].name) - 1] = 0;
		message->stats.jit_problems[i].name[sizeof(message->stats.jit_problems[i].name) - 1] = 0;
		message->stats.costs[i].name[sizeof(message->stats.costs[i].name) - 1] = 0;
	}
	for (size_t i = 0; i < LINK_TARGETS_MAX; i++)
		message->stats.targets[i].name[sizeof(message->stats.targets[i].name) - 1] = 0;
	for (size_t i = 0; i < LINK_WALKS_MAX; i++)
		message->stats.worst[i].comm[sizeof(message->stats.worst[i].comm) - 1] = 0;
	for (size_t i = 0; i < LINK_WALKS_MAX; i++)
		message->stats.walks[i].name[sizeof(message->stats.walks[i].name) - 1] = 0;
	return true;
}

int link_receive(int link_fd, struct link_message *ret, int *ret_fd, struct error *err)
{
	struct iovec part = {.iov_base = ret, .iov_len = sizeof(*ret)};
	union control control;
	struct msghdr header = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	ssize_t len;
	do
		len = recvmsg(link_fd, &header, MSG_CMSG_CLOEXEC);
	while (len < 0 && errno == EINTR);
	if (len < 0)
		return errno == ECONNRESET ? 0 : error_set_errno(err, -errno, "cannot read from the agent");
	if (len == 0)
		return 0;
	int fd = take_fd(&header);
	if (!message_is_sound(ret, len)) {
		io_close(fd);
		return error_set(err, -EBADMSG,
				 "the agent sent a message of an unknown format; agent and server must be the same build");
	}
	*ret_fd = fd;
	return 1;
}
