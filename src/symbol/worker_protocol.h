/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/symbol: what a worker and its parent say to each other, over a pair of SOCK_SEQPACKET sockets.
 *
 *   parent -> worker   BEGIN    what to build and within which limits; with the descriptor to write the table to
 *   worker -> parent   OPEN     a file is wanted; the worker waits
 *   parent -> worker   OPENED   with a descriptor, or why there is none
 *   worker -> parent   DONE     the table is written. The worker waits to be killed
 *                      FAILED   why not
 *                      BROKE    the worker made a system call that it may not make; sent by the handler of SIGSYS
 *
 * A packet is a message: a kind, then fields of fixed size, zero where unused. Both sides are the same program, so there is no
 * versioning beyond a check that they are. The worker may have been taken over by what it reads: the parent checks every field
 * of what it receives and takes no descriptors. Packets, not a stream, because they cannot be half a message, and the kernel
 * says when one was longer than it may be.
 */
#ifndef WICK_SYMBOL_WORKER_PROTOCOL_H
#define WICK_SYMBOL_WORKER_PROTOCOL_H

#include <stdint.h>

#include "symbol/build.h"

#define WORKER_VERSION	   2u
#define WORKER_SOCKET	   3	  /* the worker's end */
#define WORKER_REFUSED_MAX 65536u /* requests beyond files_max, which are answered with -EMFILE */

enum worker_message_kind {
	WORKER_BEGIN = 1,
	WORKER_OPEN,
	WORKER_OPENED,
	WORKER_DONE,
	WORKER_FAILED,
	WORKER_BROKE,
};
struct worker_begin {
	uint32_t kind, version;
	int64_t parent_pid;
	uint64_t memory_max_bytes, table_bytes_max, cpu_max_s, files_max;
	char build_id[BUILD_ID_HEX_MAX];
};
struct worker_open {
	uint32_t kind;
	struct symbol_file_request request;
};
struct worker_opened {
	uint32_t kind;
	int32_t code; /* 0, SYMBOL_FILE_ANNOUNCED, _COMPARED: a descriptor comes with it; otherwise negative errno */
};
struct worker_done {
	uint32_t kind;
	struct symbol_build_result result;
};
struct worker_failed {
	uint32_t kind;
	int32_t code;
	char message[ERROR_MESSAGE_MAX];
};
struct worker_broke {
	uint32_t kind;
	int32_t system_call;
};
union worker_message {
	uint32_t kind;
	struct worker_begin begin;
	struct worker_open open;
	struct worker_opened opened;
	struct worker_done done;
	struct worker_failed failed;
	struct worker_broke broke;
};

/* Size of a message of that kind; 0 when there is no such kind. */
size_t worker_message_size(uint32_t kind);
/* Sends message, whose kind is set, and fd if it is not negative. Never waits: the other side reads before it is sent more,
 * or is no worker of ours. 0 or a negative errno. For signal handlers, too. */
int worker_send(int socket, const union worker_message *message, int fd);
/* Waits for a message. Its size is that of its kind. ret_fd NULL: descriptors are not taken. 1, 0 when the other side is gone,
 * or a negative errno: -EPROTO for what is no message. *ret_fd is -1 when none came. */
int worker_receive(int socket, union worker_message *ret, int *ret_fd);
/* Makes text of a worker fit to be shown: ended, one line, UTF-8. */
void worker_clean_text(char *text, size_t size);

#endif
