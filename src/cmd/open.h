/* SPDX-License-Identifier: Apache-2.0 */
/* Showing a profile on this machine until Ctrl-C, as `wick open` does, and `wick record` and `wick import` with --open. */
#ifndef WICK_CMD_OPEN_H
#define WICK_CMD_OPEN_H

#include "base/error.h"
#include "profile/profile.h"

enum browser {
	BROWSER_AUTO,
	BROWSER_PROFILER,
	BROWSER_PAGE,
	BROWSER_NONE,
};
struct open_options {
	const char *listen; /* as given; NULL = the default */
	enum browser browser;
};
#define LISTEN_OPTION_ROW(text)                                                                                                \
	OPTION_ROW(0, "listen", "ADDR:PORT", OPTION_TEXT, text,                                                                \
		   .help = "address to serve the profile: 127.0.0.1:PORT or\n[::1]:PORT (default: a free port of "             \
			   "127.0.0.1)")
#define BROWSER_OPTION_ROW(browser)                                                                                            \
	OPTION_ROW(0, "browser", "WHERE", OPTION_CHOICE, browser, BROWSER_PROFILER, .choices = "firefox-profiler, page, none", \
		   .help = "viewer to open: firefox-profiler, page, or\nnone (default: firefox-profiler on a "                 \
			   "desktop, none for root)")
/* Checks these before long work. -EINVAL. */
int open_check(const struct open_options *options, struct error *err);
/* Starts the user's browser (xdg-open) with a link or a file; prints why it cannot. */
void open_browser(const char *verb, const char *link);
/* Prints where the profile can be seen, on stderr, and serves it. title: any text, such as the file's name. Positive: SIGTERM
 * ended it, which is meant for all that wick does; 0: Ctrl-C. */
int open_serve(const struct open_options *options, const char *verb, const struct profile *profile, const char *title,
	       struct error *err);

#endif
