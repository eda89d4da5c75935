/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A screen: cells that are filled anew for each picture, of which only what changed since the last one is sent. Text that is
 * put on it may be anybody's: nothing of it reaches the terminal but characters that can be seen. Essay at the top of screen.c.
 */
#ifndef WICK_TERMINAL_SCREEN_H
#define WICK_TERMINAL_SCREEN_H

#include "base/buffer.h"
#include "base/cleanup.h"

#define SCREEN_ROWS_MAX	   1000u
#define SCREEN_COLUMNS_MAX 1000u

struct screen_cell {
	uint32_t code; /* a character; 0 = the right half of a wide one */
	uint32_t style;
};
struct screen {
	unsigned rows, columns;
	/* What "ESC [ ... m" takes for each style, "" = plain; [0] is plain. Borrowed. */
	const char *const *styles;
	bool is_ascii;		   /* the terminal shows nothing else: '?' stands for it */
	struct screen_cell *cells; /* row after row */
	struct screen_cell *shown; /* what the terminal has */
	bool is_unknown;	   /* what it has is not known */
};

/* Of what was never set up or is released already, too. */
void screen_release(struct screen *screen);
/* To a size, cut to the limits; cleared. 0 or -ENOMEM, then as before. */
int screen_resize(struct screen *screen, unsigned rows, unsigned columns);
void screen_clear(struct screen *screen);
/* The next picture is sent as a whole: something else may have been on the terminal. */
void screen_forget(struct screen *screen);

/* Puts text into `width` cells from `column` on, as much as there is room for, in one style: blanks follow it. Outside of the
 * screen nothing is put. */
void screen_put(struct screen *screen, unsigned row, unsigned column, unsigned width, unsigned style, struct bytes text);
void screen_put_string(struct screen *screen, unsigned row, unsigned column, unsigned width, unsigned style, const char *text);
/* Gives cells another style, and leaves the text. */
void screen_paint(struct screen *screen, unsigned row, unsigned column, unsigned width, unsigned style);

/* How many cells a text takes. */
size_t screen_text_width(struct bytes text);
/* Appends what turns what the terminal shows into this picture. 0 or -ENOMEM; after a failure the next one is sent as a whole.
 */
int screen_draw(struct screen *screen, struct buffer *out);

#endif
