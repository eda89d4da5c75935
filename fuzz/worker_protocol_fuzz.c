// SPDX-License-Identifier: Apache-2.0
/*
 * A parent whose worker was taken over. The input is what the worker does, one after the other:
 *
 *   'r' LEN LEN bytes...        sends these bytes, little-endian length
 *   'o' KIND a NUL b NUL        asks for a file of that kind, build-id a, name b
 *   'd' / 'f' / 'b' bytes...    an answer of that kind, its fields as far as 64 bytes go
 *   'p'                         sends a descriptor
 *
 * and then it is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "symbol/worker_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t len;
};

static size_t take(struct input *input, void *out, size_t len)
{
	if (len > input->len)
		len = input->len;
	memcpy(out, input->data, len);
	input->data += len;
	input->len -= len;
	return len;
}

static void take_text(struct input *input, char *out, size_t size)
{
	size_t len = 0;
	while (input->len > 0 && len < size && (out[len] = (char)*input->data)) {
		take(input, out + len, 1);
		len++;
	}
	char ended;
	take(input, &ended, 1);
}

static void send_raw(int socket, struct input *input)
{
	static uint8_t packet[sizeof(union worker_message) + 256];
	uint16_t len = 0;
	take(input, &len, sizeof(len));
	size_t n = take(input, packet, len % sizeof(packet));
	(void)!send(socket, packet, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void act(int socket, struct input *input)
{
	union worker_message message = {0};
	uint8_t action = 0, kind = 0;
	take(input, &action, 1);
	switch (action) {
	case 'o':
		take(input, &kind, 1);
		message.open.kind = WORKER_OPEN;
		message.open.request.kind = kind;
		take_text(input, message.open.request.build_id, sizeof(message.open.request.build_id));
		take_text(input, message.open.request.name, sizeof(message.open.request.name));
		break;
	case 'd':
	case 'f':
	case 'b':
		memset(&message, 'x', sizeof(message));
		take(input, &message, 64);
		message.kind = action == 'd' ? WORKER_DONE : action == 'f' ? WORKER_FAILED : WORKER_BROKE;
		take(input, message.failed.message, 64);
		take(input, message.done.result.problem, 64);
		break;
	case 'p':
		message.done.kind = WORKER_DONE;
		worker_send(socket, &message, socket);
		return;
	default: send_raw(socket, input); return;
	}
	worker_send(socket, &message, -1);
}

static int open_file(void *context, const struct symbol_file_request *request, int *ret_fd, struct error *err)
{
	if (request->kind >= SYMBOL_FILE_KINDS || (request->build_id[0] && !build_id_is_valid(request->build_id)) ||
	    strlen(request->name) >= sizeof(request->name))
		abort();
	if (request->kind & 1)
		return -ENOENT;
	*ret_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static void check_text(const char *text, size_t size)
{
	const char *end = memchr(text, 0, size);
	if (!end || !text_is_utf8((struct bytes){(const uint8_t *)text, (size_t)(end - text)}))
		abort();
	for (; text < end; text++)
		if ((unsigned char)*text < ' ')
			abort();
}

static int first_free_descriptor(void)
{
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	int ends[2], free_before = first_free_descriptor();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	while (input.len > 0)
		act(ends[1], &input);
	shutdown(ends[1], SHUT_WR);
	struct worker_conversation c = {
		.socket = ends[0],
		.limits = {.program = "", .memory_max_bytes = 1, .cpu_max_ns = 1, .wall_max_ns = 1000000000, .files_max = 8},
		.open_file = open_file,
		.ending = WORKER_ENDED_CANCELED,
	};
	worker_converse(&c);
	/* Nothing of this takes time. */
	if (c.ending == WORKER_ENDED_CANCELED || c.ending == WORKER_ENDED_LATE)
		abort();
	if (c.ending == WORKER_ENDED_DONE)
		check_text(c.last.done.result.problem, sizeof(c.last.done.result.problem));
	if (c.ending == WORKER_ENDED_FAILED)
		check_text(c.last.failed.message, sizeof(c.last.failed.message));
	close(ends[0]);
	close(ends[1]);
	if (first_free_descriptor() != free_before)
		abort();
	return 0;
}
