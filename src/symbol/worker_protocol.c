// SPDX-License-Identifier: Apache-2.0
#include "symbol/worker_protocol.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"

size_t worker_message_size(uint32_t kind)
{
	switch (kind) {
	case WORKER_BEGIN: return sizeof(struct worker_begin);
	case WORKER_OPEN: return sizeof(struct worker_open);
	case WORKER_OPENED: return sizeof(struct worker_opened);
	case WORKER_DONE: return sizeof(struct worker_done);
	case WORKER_FAILED: return sizeof(struct worker_failed);
	case WORKER_BROKE: return sizeof(struct worker_broke);
	}
	return 0;
}

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

int worker_send(int socket, const union worker_message *message, int fd)
{
	struct iovec part = {.iov_base = (void *)message, .iov_len = worker_message_size(message->kind)};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	union control control = {0};
	if (fd >= 0) {
		header.msg_control = &control;
		header.msg_controllen = sizeof(control.room);
		struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(rights), &fd, sizeof(int));
	}
	ssize_t n;
	do {
		n = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* The descriptor that came along, or -1. There is room for one, so there cannot be more. */
static int take_descriptor(struct msghdr *header)
{
	struct cmsghdr *rights = CMSG_FIRSTHDR(header);
	int fd;
	if (!rights || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS ||
	    rights->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&fd, CMSG_DATA(rights), sizeof(int));
	return fd;
}

int worker_receive(int socket, union worker_message *ret, int *ret_fd)
{
	struct iovec part = {.iov_base = ret, .iov_len = sizeof(*ret)};
	union control control;
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	if (ret_fd) {
		header.msg_control = &control;
		header.msg_controllen = sizeof(control.room);
		*ret_fd = -1;
	}
	ssize_t n;
	do {
		n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	/* What the other side had not read when it died. */
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return 0;
	if (n < 0)
		return -errno;
	int fd = ret_fd ? take_descriptor(&header) : -1;
	bool is_message = (size_t)n >= sizeof(ret->kind) && (size_t)n == worker_message_size(ret->kind) &&
			  !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
	if (!is_message) {
		io_close(fd);
		return -EPROTO;
	}
	if (ret_fd)
		*ret_fd = fd;
	return 1;
}

void worker_clean_text(char *text, size_t size)
{
	text[size - 1] = '\0';
	size_t len = strlen(text);
	bool is_utf8 = text_is_utf8((struct bytes){(const uint8_t *)text, len});
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c < ' ' || c == 0x7f || (c > 0x7f && !is_utf8))
			text[i] = '?';
	}
}
