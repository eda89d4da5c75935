/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings of many hosts: which there are, what their hosts are doing, and the profiles that came of it, in a directory with
 * a limit. One struct a tenant. It knows nothing of HTTP, and callers pass the time. Thread-safe.
 */
#ifndef WICK_SERVER_STORES_RECORDINGS_H
#define WICK_SERVER_STORES_RECORDINGS_H

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "control/protocol.h"
#include "server/stores/noted_file.h"

#define RECORDINGS_BYTES_DEFAULT  (2ull << 30)
#define RECORDINGS_AGE_DEFAULT_NS (7 * 24 * 3600 * 1000000000ll)
/* LIMITs: agents that are remembered, recordings and hosts of them that are kept (the oldest go), bytes of one upload and of
 * what is in it. */
#define RECORDINGS_AGENTS_MAX	  4096
#define RECORDINGS_MAX		  1000
#define RECORDINGS_HOSTS_MAX	  20000
#define RECORDINGS_REQUEST_MAX	  (512u << 10) /* a request may name all hosts */
#define RECORDINGS_UPLOAD_MAX	  RECORDING_PROFILE_MAX
#define RECORDINGS_PLAIN_MAX	  (512ull << 20)
#define RECORDINGS_POLL_NS	  (5 * 1000000000ll)
#define RECORDINGS_POLL_BUSY_NS	  (1000000000ll)	/* while there is something to do: pings around it bound the clock */
#define RECORDINGS_LEAD_NS	  (8 * 1000000000ll)	/* until all have polled, and their recorders are loaded */
#define RECORDINGS_AGENT_STALE_NS (30 * 1000000000ll)	/* since its last poll: it is not one of "all hosts" any more */
#define RECORDINGS_SILENT_NS	  (30 * 1000000000ll)	/* after the end, without a word */
#define RECORDINGS_SENDING_NS	  (600 * 1000000000ll)	/* the same of an agent that sends, and does not poll meanwhile */
#define RECORDINGS_LAST_NS	  (1800 * 1000000000ll) /* after the end, whatever its agent reports */

struct recordings;
struct recordings_options {
	const char *directory;
	uint64_t bytes_max; /* 0 = the default; the oldest go first */
	int64_t age_ns;	    /* 0 = the default; negative = for ever */
	struct store_problems problems;
};
/* Reads what is there. Files that are not whole get the ending ".torn" and are left out. */
int recordings_open(const struct recordings_options *options, int64_t now_ns, struct recordings **ret, struct error *err);
struct recordings *recordings_close(struct recordings *recordings);
DEFINE_CLEANUP_POINTER(recordings_close, struct recordings);

/* ---- agents ---- */

/* Notes which agent polls and what it reports; fills the reply's request, cancels and poll_ns. now_ns: wall clock. -EDQUOT
 * beyond RECORDINGS_AGENTS_MAX of the last minutes. */
int recordings_poll(struct recordings *recordings, const struct control_poll *poll, int64_t now_ns, struct control_reply *reply,
		    struct error *err);

struct recordings_agent {
	struct control_poll poll; /* the last */
	int64_t polled_ns;
	char recording[CONTROL_ID_SIZE]; /* that it is at; "" = none */
};
/* Those of the last RECORDINGS_AGENT_STALE_NS, in the order of their hosts' names. *ret from mem_alloc(). */
int recordings_agents(struct recordings *recordings, int64_t now_ns, struct recordings_agent **ret, size_t *ret_count,
		      struct error *err);

/* ---- recordings ---- */

struct recording_host {
	char name[CONTROL_HOST_SIZE], agent[CONTROL_ID_SIZE]; /* agent "": no agent of that name has polled */
	enum recording_state state;
	char why[CONTROL_TEXT_SIZE];
	uint64_t bytes, plain_bytes; /* of DONE: on disk, and unpacked */
	struct host_clock clock;     /* of DONE */
};
/* A copy. */
struct recording {
	struct recording_request request;
	int64_t created_ns;
	bool is_over; /* nothing more is expected */
	uint64_t bytes;
	struct recording_host *hosts;
	size_t host_count;
};
struct recording *recording_free(struct recording *recording); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(recording_free, struct recording);

/* A new one, of the hosts that are named, or of all that poll; on disk when it returns. request: id and start_ns are made here.
 * -ENOENT: no host polls at all. Hosts that are not known, refuse or are busy become FAILED or SILENT at once, with the
 * reason. */
int recordings_create(struct recordings *recordings, struct recording_request *request, char (*hosts)[CONTROL_HOST_SIZE],
		      size_t host_count, int64_t now_ns, struct error *err);
/* -ENOENT. */
int recordings_get(struct recordings *recordings, const char *id, int64_t now_ns, struct recording **ret, struct error *err);
/* Newest first; without their hosts' clocks and files it is a list of what recordings_get() gives. *ret is an array of
 * *ret_count, to be freed each and as a whole. */
int recordings_list(struct recordings *recordings, int64_t now_ns, struct recording ***ret, size_t *ret_count,
		    struct error *err);
/* What runs is cancelled, what is there is removed. -ENOENT. */
int recordings_remove(struct recordings *recordings, const char *id, struct error *err);

/* A host's profile, from outside. */
struct recordings_upload {
	const char *id, *host;
	const char *key; /* that the host's agent got with the request; NULL = none */
	struct host_clock clock;
	struct bytes gzip; /* of one member */
};
/* Whether it would be taken, before anything is unpacked: -ENOENT no such recording, or not of that host; -EACCES another key;
 * -EEXIST it is there already; -EAGAIN it is being written. */
int recordings_admit(struct recordings *recordings, const struct recordings_upload *upload, struct error *err);
/* Checks that it is whole; it is on disk, synced, when this returns 0. Errors as above, and -EBADMSG no gzip, or torn; -E2BIG;
 * -ENOSPC more than all may take, or a full disk. */
int recordings_put(struct recordings *recordings, const struct recordings_upload *upload, int64_t now_ns, struct error *err);
/* The file as it was put, checked; `ret` is an initialised buffer. -ENOENT, -EBADMSG: torn, and set aside. */
int recordings_read(struct recordings *recordings, const char *id, const char *host, struct buffer *ret, struct error *err);

/* Counts an upload that was admitted, and refused for what is in it. */
void recordings_count_refused(struct recordings *recordings);
/* A host whose file was of no use to who read it: FAILED from now on, with the reason. The file stays, and counts; whoever
 * starts the server anew has it tried again. Does nothing if there is no such host that is DONE. */
void recordings_give_up(struct recordings *recordings, const char *id, const char *host, const char *why);

struct recordings_stats {
	uint64_t recordings, files, bytes, bytes_max, agents;		    /* now */
	uint64_t created, received, refused, evicted, torn, bytes_received; /* since the start */
};
void recordings_get_stats(struct recordings *recordings, struct recordings_stats *ret);

#endif
