/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal that this process was started on, taken over for a picture and given back: on every way out, also by signals
 * that end the process. One at a time.
 */
#ifndef WICK_TERMINAL_TERMINAL_H
#define WICK_TERMINAL_TERMINAL_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"

struct terminal_look {
	bool is_utf8;	  /* by LC_ALL, LC_CTYPE and LANG */
	unsigned colours; /* 0 (also where NO_COLOR is set), 8 or 256, by TERM and COLORTERM */
};
void terminal_get_look(struct terminal_look *ret);

/* Standard input and output, whose settings are kept. -ENOTTY if one of them is no terminal; -ENOTSUP if TERM is "dumb". */
int terminal_open(struct error *err);
/* Takes it over: bytes come as they are typed, also Ctrl-C and Ctrl-Z; the picture has a page of its own, behind which what was
 * there before stays. Signals that end the process (SIGSEGV ... and a second SIGTERM) give it back first. */
int terminal_enter(struct error *err);
/* Gives it back; nothing if it is not taken. Async-signal-safe. */
void terminal_leave(void);
/* 24 by 80 where that is not known. */
void terminal_get_size(unsigned *ret_rows, unsigned *ret_columns);
/* All of it, however slow the terminal is; -EIO if it is gone. */
int terminal_write(struct bytes bytes);
/* Stops as Ctrl-Z does, with the terminal given back, until SIGCONT. */
int terminal_suspend(struct error *err);

/* What is written to stderr would end up within the picture: it is kept from here on, and printed by the second one. 0 or a
 * negative errno, then nothing is kept. */
int terminal_hold_errors(void);
void terminal_release_errors(void);

#endif
