/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of remote procedure calls into structs. Numbers and kinds of fields are those of the message's table, which clients
 * that speak JSON need anyway; here is only told where each goes, by its name there. Fields of no row, and those that come in
 * another wire type than theirs, are passed over; of one that comes twice the last counts.
 */
#ifndef WICK_SERVER_HTTP_RPC_READ_H
#define WICK_SERVER_HTTP_RPC_READ_H

#include <stddef.h>

#include "base/arena.h"
#include "codec/protobuf_json.h"

struct rpc_list {
	const char **items;
	size_t count, capacity;
};
enum rpc_member_kind {
	RPC_VALUE,  /* const char *, bool, float, 64 bits of all other numbers; times and durations: int64_t, nanoseconds */
	RPC_LIST,   /* struct rpc_list: texts are appended; of messages their field 1 */
	RPC_WITHIN, /* of a message: `members`, from the offset on */
	RPC_GIVEN,  /* bool: it is there */
	RPC_BYTES,  /* struct bytes: the message, or the bytes */
};
/* A field may have several rows. The last row has no name. */
struct rpc_member {
	const char *name;
	size_t offset;
	enum rpc_member_kind kind;
	const struct rpc_member *members;
};
struct rpc_reader {
	const struct rpc_member *members;
	struct arena *arena; /* of texts and lists */
	size_t list_max;
};
/* Of what is not in the message nothing is written. -EBADMSG: malformed. -EINVAL: a value, or all of them, cannot be taken. */
int rpc_read(const struct rpc_reader *reader, struct bytes message, const struct pb_json_message *form, void *to,
	     struct error *err);

#endif
