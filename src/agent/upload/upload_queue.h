/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which binaries the server may want debug information of, when to ask, and what to send next.
 *
 * An entry a file, by the type of its id, the id, and its content (elf/content_key.h), as two files may have one id. It goes
 * round:
 *
 *     ask --wanted--> send --sent, refused--> ask (an hour later)
 *      ^  |                \--failed--> send (after a pause)
 *      |  +--later--> ask (when the server says)
 *      +--- not wanted: an hour later
 *
 * A binary may be replaced, deleted or unmounted before its turn comes. So the descriptor under which it was shown is kept, of
 * the first UPLOAD_QUEUE_FILES_MAX that wait; the others are opened anew by their path, and are what they say only if their
 * id and content say so too. A descriptor keeps its file system busy, so it is closed as soon as the server does not want the
 * file.
 *
 * A host has hundreds of binaries, so entries are an array that is searched from its beginning.
 *
 * Thread-safe: the sampling thread adds, the uploading one does the rest. No lock is held over anything slow.
 */
#ifndef WICK_AGENT_UPLOAD_UPLOAD_QUEUE_H
#define WICK_AGENT_UPLOAD_UPLOAD_QUEUE_H

#include <sys/types.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "elf/content_key.h"
#include "elf/file_ids.h"

#define UPLOAD_QUEUE_ENTRIES_MAX 4096
#define UPLOAD_QUEUE_FILES_MAX	 64
#define UPLOAD_NEVER		 INT64_MAX

/* What a build-id stands for. */
enum upload_what { UPLOAD_BINARY, UPLOAD_KERNEL };

/* Which file. */
struct upload_key {
	enum file_id_type id_type;
	const char *id;
	const char *content; /* NULL, "" = not known */
	uint64_t code;	     /* of its content_key, and no part of this one; 0 = not known */
};

struct upload_queue;
int upload_queue_new(struct upload_queue **ret, struct error *err);
struct upload_queue *upload_queue_free(struct upload_queue *queue);
DEFINE_CLEANUP_POINTER(upload_queue_free, struct upload_queue);

/* A binary: path as process `pid` sees it (0 = unknown). fd (-1 = none) stays the caller's, a duplicate may be kept. 0 also
 * when it is known already. When full, an entry that waits for its next hour makes room; -ENOSPC when there is none. -ENOMEM.
 */
int upload_queue_add(struct upload_queue *queue, enum upload_what what, const struct upload_key *key, const char *path,
		     pid_t pid, int fd);

/* Forgets everything. What is being sent stays its taker's. */
void upload_queue_clear(struct upload_queue *queue);

/* ---- asking ---- */

/* Calls visit for at most `max` entries that are due to be asked for; they are in question then until answered. Returns how
 * many. visit must not call back. */
typedef void upload_queue_visitor(void *context, enum upload_what what, const struct upload_key *key, const char *path);
size_t upload_queue_ask(struct upload_queue *queue, int64_t now_ns, size_t max, upload_queue_visitor *visit, void *context);
/* It is wanted, and may be sent from due_ns on; or it is to be asked for again then. What was not in question stays as it is.
 * Older servers answer without a content, or a type of the id: that is of the first one in question of that id. */
void upload_queue_answer(struct upload_queue *queue, const struct upload_key *key, bool wanted, int64_t due_ns);
/* Everything that is still in question is asked for again at due_ns. keep: it may be wanted then, so files stay open. */
void upload_queue_answer_rest(struct upload_queue *queue, bool keep, int64_t due_ns);

/* ---- sending ---- */

/* Owned by who took it: upload_queue_done() releases it. */
struct upload_item {
	enum upload_what what;
	enum file_id_type id_type;
	char build_id[BUILD_ID_HEX_MAX];
	char content[CONTENT_KEY_HEX]; /* "" = not known */
	char *path;
	pid_t pid;
	int fd;		/* -1 = none */
	unsigned tries; /* that failed before */
};
/* The next entry to send. False when nothing is due. -ENOMEM counts as nothing. */
bool upload_queue_take(struct upload_queue *queue, int64_t now_ns, struct upload_item *ret);
enum upload_outcome {
	UPLOAD_DONE,   /* sent, or not to be had: asked for again at due_ns */
	UPLOAD_FAILED, /* to be sent at due_ns */
	UPLOAD_BUSY,   /* somebody else may be sending it: asked for again at due_ns; no failure */
};
void upload_queue_done(struct upload_queue *queue, struct upload_item *item, enum upload_outcome outcome, int64_t due_ns);

/* It was answered that it is not wanted, or it was sent, and has not been found wanted since. */
bool upload_queue_is_settled(struct upload_queue *queue, const struct upload_key *key);
/* When there is something to ask for, and to send; UPLOAD_NEVER. */
void upload_queue_next(struct upload_queue *queue, int64_t *ret_ask_ns, int64_t *ret_send_ns);
struct upload_queue_stats {
	uint64_t entries, files, refused; /* refused: no room */
	uint64_t wanted;		  /* waiting to be sent */
};
void upload_queue_get_stats(struct upload_queue *queue, struct upload_queue_stats *ret);

#endif
