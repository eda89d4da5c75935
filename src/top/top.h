/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live view: what is looked at (a table or a tree, of everything or of what was entered), what keys change of it, and the
 * picture. Nothing here waits or reads anything: who calls it gives snapshots and keys, and shows the screen.
 */
#ifndef WICK_TOP_TOP_H
#define WICK_TOP_TOP_H

#include "terminal/screen.h"
#include "top/recent.h"
#include "top/rows.h"
#include "top/tree.h"

enum top_view {
	TOP_VIEW_FUNCTIONS = TOP_FUNCTIONS,
	TOP_VIEW_PROCESSES,
	TOP_VIEW_THREADS,
	TOP_VIEW_BINARIES,
	TOP_VIEW_TREE,
	TOP_VIEW_FLAME,
	TOP_VIEWS,
};
/* "functions" ... "flame". */
extern const char *const top_view_names[TOP_VIEWS];

/* What is known beside the samples. Texts are borrowed and may be anybody's. */
struct top_facts {
	const char *where;     /* the host, or a server's URL */
	const char *note;      /* one line that a person has to know; "" = nothing */
	const char *waiting;   /* what there is to wait for before the first samples */
	unsigned cpus;	       /* 0 = not known */
	unsigned frequency_hz; /* 0 = not known */
	unsigned pending;      /* binaries whose symbols are being read */
	struct top_interval sum;
	bool has_losses; /* sum.lost, stacks and incomplete are known */
	bool has_cost;	 /* sum.own_cpu_ns is */
	char clock[16];	 /* "12:34:56" */
};

enum top_mode { TOP_MODE_VIEW, TOP_MODE_FILTER, TOP_MODE_SEARCH, TOP_MODE_HELP };
#define TOP_INPUT_MAX  64
#define TOP_PLACES_MAX 16

/* What was entered. Texts are its own: they outlive the data. */
enum top_place_kind { TOP_PLACE_PROCESS, TOP_PLACE_THREAD, TOP_PLACE_BINARY, TOP_PLACE_FUNCTION };
struct top_place {
	enum top_place_kind kind;
	char name[1024], binary[256], host[256], pid[24], tid[24];
	enum top_view from; /* where to go back to */
	uint64_t selected;
};

struct top_sorting {
	enum top_order order;
	bool is_reversed;
};
struct top {
	enum top_view view;
	struct top_sorting sorting[TOP_TABLES];
	struct top_choice choice; /* what of it is of places is set from them */
	bool is_of_machine;	  /* percentages: of all CPUs, not of one */
	bool is_paused;		  /* who calls this gives nothing new */
	bool is_ascii;
	unsigned colours;
	char filter[TOP_INPUT_MAX], search[TOP_INPUT_MAX];
	enum top_mode mode;
	struct top_place places[TOP_PLACES_MAX];
	size_t place_count;

	const struct profile *snapshot; /* borrowed; NULL = none yet */
	struct top_facts facts;
	int64_t total, kernel; /* CPU time of the snapshot */
	struct top_data data;
	struct top_rows rows;
	struct top_tree tree;

	size_t cursor;			    /* in rows.shown or tree.items */
	size_t first;			    /* the first one on the screen */
	uint64_t selected;		    /* the id at the cursor */
	bool is_moved;			    /* the cursor was moved: it stays with what it is at */
	unsigned page;			    /* lines of the list, as last drawn */
	unsigned rows_shown, columns_shown; /* of the screen, as last drawn */
	size_t help_first;
};

/* Zeroed is a good beginning but for this. */
void top_init(struct top *top);
void top_release(struct top *top);
/* The next picture's samples and facts: borrowed until the next ones, and as they are. Names are best short
 * (render_shorten_names()). -ENOMEM, -E2BIG. */
int top_update(struct top *top, const struct profile *snapshot, const struct top_facts *facts, struct error *err);
/* The same samples anew, after settings were changed. */
int top_rebuild(struct top *top, struct error *err);

enum top_action { TOP_NOTHING, TOP_REDRAW, TOP_QUIT, TOP_SUSPEND, TOP_REPAINT };
/* Does what the key means. Errors are those of top_update(). */
int top_key(struct top *top, uint32_t key, enum top_action *ret, struct error *err);

/* The styles of a screen. */
const char *const *top_styles(unsigned colours);
void top_draw(struct top *top, struct screen *screen);
/* As text, `limit` lines of the list (0 = all). */
int top_print(const struct top *top, size_t limit, struct buffer *out);

#endif
