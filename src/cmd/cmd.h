/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: one file a verb, one row a verb in main.c. A verb's run() gets its own name as argv[0] and returns the exit
 * status: 0 done, 1 failed, 2 usage. Only this folder prints.
 */
#ifndef WICK_CMD_CMD_H
#define WICK_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"
#include "profile/labels.h"
#include "profile/profile.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct verb {
	const char *name, *summary;
	int (*run)(int argc, char **argv);
	bool until_signal; /* runs until SIGINT or SIGTERM */
};
int cmd_up(int argc, char **argv);
int cmd_server(int argc, char **argv);
int cmd_agent(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_query(int argc, char **argv);
int cmd_saved(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_store(int argc, char **argv);
int cmd_debuginfo(int argc, char **argv);
int cmd_token(int argc, char **argv);
int cmd_open(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_annotate(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_debuginfo_lookup(int argc, char **argv); /* of cmd_debuginfo() */
/* Prints untrusted text (names, paths, reasons) safely for a terminal, padded to a width in characters. */
void cmd_print_harmless(FILE *out, const char *text, int width);
void cmd_print_harmless_bytes(FILE *out, struct bytes text);
/* fprintf() of whatever has untrusted text in it: the whole of it safely, but for line ends and tabs. */
void cmd_printf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What a server has sent, or a profile has in it, to a file, or to standard output ("-"): as it is, and safely on a terminal.
 */
int cmd_write(const char *path, struct bytes text, struct error *err);

/* ---- options.c: options, help and their errors, the same way for all verbs ---- */

#define OPTION_LIST_MAX 64
struct option_list {
	const char *items[OPTION_LIST_MAX];
	size_t count;
};
enum option_kind {
	OPTION_FLAG,	 /* bool */
	OPTION_TEXT,	 /* const char * */
	OPTION_UNSIGNED, /* unsigned, min..max */
	OPTION_CHOICE,	 /* an enum: one of `choices`, of which the first is the number `min` */
	OPTION_FORMAT,	 /* const struct format * that can be read */
	OPTION_DURATION, /* int64_t ns, > 0 */
	OPTION_SIZE,	 /* uint64_t bytes, > 0 */
	OPTION_LIST,	 /* struct option_list; may be given several times */
};
struct option_row {
	char letter;		     /* 0 = none */
	const char *name, *argument; /* argument's name in the help, NULL for flags */
	enum option_kind kind;
	void *target;
	unsigned min, max;   /* OPTION_UNSIGNED */
	const char *choices; /* OPTION_CHOICE: "one, two, three" */
	const char *help;    /* lines of at most 60 characters, separated by \n */
	bool not_in_environment;
};
/* A row within a macro. */
#define OPTION_ROW(...)                                                                                                        \
	{                                                                                                                      \
		__VA_ARGS__                                                                                                    \
	}
struct usage {
	const char *verb, *synopsis, *description; /* synopsis without "wick VERB"; description: lines */
	const struct option_row *options;	   /* ends with a NULL name; -h, --help is added */
	const char *actions;			   /* that the first operand can be, with ", " between; NULL = it is none */
	const char *examples;			   /* lines; NULL = none */
	/* Options are taken from the environment too, --token-file from WICK_TOKEN_FILE: what is given as an argument comes
	 * after it. Of flags: 1 or 0; of what may be given several times, each in a line of its own. */
	bool environment;
};
/* Not for people: prints what shells complete. */
#define OPTION_COMPLETIONS "--completions"
#define OPERANDS_MAX	   1024
struct operands {
	char *items[OPERANDS_MAX + 1]; /* NULL-terminated, so that it can be an exec's argv */
	size_t count;
	bool after_dashes; /* "--" was there: operands are a command */
};
/* 0 = go on; otherwise an exit status plus 1 to return at once (help printed, or a usage error printed): use with
 * OPTIONS_OR_RETURN. ret_operands NULL: the verb takes none. */
int options_parse(const struct usage *usage, int argc, char **argv, struct operands *ret_operands);
#define OPTIONS_OR_RETURN(usage, argc, argv, operands)                                                                         \
	do {                                                                                                                   \
		int options_status = options_parse(usage, argc, argv, operands);                                               \
		if (options_status)                                                                                            \
			return options_status - 1;                                                                             \
	} while (0)
/* Prints "wick VERB: message" and the hint at --help on stderr; returns EXIT_USAGE. */
int usage_error(const struct usage *usage, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints "wick VERB: message" on stderr, VERB once where the message begins with it; returns EXIT_FAILED. */
int cmd_fail(const char *verb, const struct error *err);

/* ---- shared between verbs ---- */

/* --event: true for "cycles", false for "cpu-clock" and NULL. */
int parse_event(const char *text, bool *ret_cycles, struct error *err);
/* The option's row; `text` is a const char *. */
/* Of verbs that print functions for people: those of interpreters too (profile/interpreters.h). */
#define INTERPRETERS_OPTION_ROW(flag)                                                                                          \
	OPTION_ROW(0, "interpreters", NULL, OPTION_FLAG, flag,                                                                 \
		   .help = "show the internals of interpreters (Python, PHP,\nPerl, Ruby, Lua), which are hidden otherwise")
#define EVENT_OPTION_ROW(text)                                                                                                 \
	OPTION_ROW(0, "event", "EVENT", OPTION_TEXT, text,                                                                     \
		   .help = "sampling event: cpu-clock, or cycles if the machine\nhas the counter (default: cpu-clock)")
/* --off-cpu: a share of off-CPU intervals ("1%", "0.01"), a minimum duration ("1ms"), or both ("1%,1ms"); NULL = none. */
int parse_off_cpu(const char *text, uint32_t *ret_chance, int64_t *ret_least_ns, struct error *err);
#define OFF_CPU_OPTION_ROW(text)                                                                                               \
	OPTION_ROW(0, "off-cpu", "SPEC", OPTION_TEXT, text,                                                                    \
		   .help = "also off-CPU time: SPEC is the share of off-CPU intervals\n"                                       \
			   "to sample (1%), their minimum duration (1ms), or both\n"                                           \
			   "(1%,1ms)")
/* --runtimes: see agent_parse_runtimes(). */
int parse_runtimes(const char *option, const char *text, uint32_t *ret_no_runtimes, struct error *err);
#define RUNTIMES_OPTION_ROW(text)                                                                                              \
	OPTION_ROW(0, "runtimes", "LIST", OPTION_TEXT, text,                                                                   \
		   .help = "interpreters and virtual machines whose functions are shown,\n"                                    \
			   "separated by commas: python, php, perl, ruby, lua,\n"                                              \
			   "luajit, jvm, v8js, beam, or none (default: all)")
/* --budget: percent of one CPU to a share; NULL = AGENT_BUDGET_DEFAULT. */
int parse_budget(const char *text, double *ret_share, struct error *err);
#define UNWIND_MEMORY_OPTION_ROW(mib)                                                                                          \
	OPTION_ROW(0, "unwind-memory", "MIB", OPTION_UNSIGNED, mib, 1, 1024,                                                   \
		   .help = "maximum kernel memory for unwind tables\n(default: 32)")
#define BUDGET_OPTION_ROW(text)                                                                                                \
	OPTION_ROW(0, "budget", "PERCENT", OPTION_TEXT, text,                                                                  \
		   .help = "lower the sampling rate if sampling uses more than\n"                                              \
			   "this much of one CPU; 0 = never (default: 0.5, or 0.1\n"                                           \
			   "of each CPU if that is more)")
#define FREQUENCY_OPTION_ROWS(options)                                                                                         \
	{'F',                                                                                                                  \
	 "frequency",                                                                                                          \
	 "HZ",                                                                                                                 \
	 OPTION_UNSIGNED,                                                                                                      \
	 &(options)->frequency_hz,                                                                                             \
	 1,                                                                                                                    \
	 10000,                                                                                                                \
	 .help = "samples per second and CPU (default: 19)"},                                                                  \
		OPTION_ROW(0, "min-frequency", "HZ", OPTION_UNSIGNED, &(options)->frequency_least_hz, 1, 10000,                \
			   .help = "the minimum rate that --budget may choose\n(default: a quarter of --frequency)")
#define HOST_LABEL_OPTION_ROW(list)                                                                                            \
	OPTION_ROW(0, "host-label", "K=V", OPTION_LIST, list,                                                                  \
		   .help = "label of this host, such as its zone, stored beside the\n"                                         \
			   "samples; may be repeated")
/* K=V ... of an option, which messages name */
int parse_labels(const char *option, const struct option_list *list, struct labels *ret, struct error *err);
/* The cache directory of unwind tables: $WICK_CACHE ("" = none), or /var/cache/wick for root, else NULL. */
const char *unwind_cache_directory(void);
/* That of symbol tables of this host's files: "symbols" in $WICK_CACHE ("" = none), or in /var/cache/wick for root, else in
 * $XDG_CACHE_HOME/wick or ~/.cache/wick; NULL = none. Valid until the next call. */
const char *symbol_cache_directory(void);
/* The default data directory: /var/lib/wick for root, else $XDG_DATA_HOME/wick or ~/.local/share/wick. */
int default_data_directory(char *out, size_t size, struct error *err);

/* One profile of all inputs, of which there is at least one: as it is read, or, if there are several, merged. Samples have no
 * times then, which would keep equal stacks apart. */
typedef int (*read_input_function)(const void *context, const char *name, struct profile **ret, struct error *err);
int read_merged(char *const *names, size_t count, read_input_function read, const void *context, struct profile **ret,
		struct error *err);
/* Writes a profile in a format named (or by the path's extension when NULL): any of src/format's, or svg, html, top. "-" is
 * standard output. */
struct output_options {
	unsigned version;   /* of formats that have several (firefox); 0 = the usual one */
	uint64_t bytes_max; /* of the file, beyond which it is -EFBIG, and nothing is left; 0 = any */
};
int output_write(const struct profile *profile, const char *path, const char *format, const char *title,
		 const struct output_options *options, struct error *err); /* options: NULL = none */
/* The same of whatever `write` puts into the sink. */
struct format_sink;
typedef int (*output_part_function)(void *context, struct format_sink *sink, struct error *err);
int output_write_parts(const char *path, bool compress, output_part_function write, void *context, struct error *err);
/* "dir/perf.data" and ".firefox.json.gz" to "perf.firefox.json.gz", after the first input; -EINVAL if it has no name, or
 * if the result is an input: a default name must not overwrite an input. */
#define OUTPUT_NAME_MAX 4096
int output_choose_name(const struct operands *inputs, const char *ending, char out[static OUTPUT_NAME_MAX], struct error *err);
/* html.c: a profile as a page of its own. title: any text. columns_max: bytes that samples and markers of the time line may
 * take; one that needs more is left out, which the page says. -EINVAL: no values. -E2BIG: too much without a time line.
 * -ENOMEM. */
struct buffer;
int html_write(const struct profile *profile, const char *title, struct buffer *out, struct error *err);
int html_write_within(const struct profile *profile, const char *title, size_t columns_max, struct buffer *out,
		      struct error *err);
/* Checks path and format in advance, before long work. */
int output_check(const char *path, const char *format, struct error *err);
/* Whether it is a table for people. */
bool output_is_table(const char *path, const char *format);
/* What the output format can store (enum format_holds); 0 for drawings. */
unsigned output_holds(const char *path, const char *format);
/* Which formats there are, "pprof, otlp or svg"; each fills names and returns it. Extensions: the usual one of each. */
#define OUTPUT_NAMES_MAX 400
const char *input_format_names(char names[OUTPUT_NAMES_MAX]);
const char *output_format_names(char names[OUTPUT_NAMES_MAX]);
const char *output_extensions(char names[OUTPUT_NAMES_MAX]);
/* Prints on stderr that sums of the profile's values may be at a limit of 64 bits, if so (base/sum.h). */
void output_print_limits(const struct profile *profile);
/* The same, and what the output format could not store. */
void output_print_losses(const struct profile *profile, const char *path, const char *format);

/* Signals that stop a verb, from its start to signals_install(): they end the process. Shells start what runs in the background
 * with SIGINT ignored, and other parents block some: what was sent while a verb loads would be lost, and it would run for ever.
 * Called once. */
void signals_prepare(void);
/* In a child, before it becomes a command: as the parent of wick had them. */
void signals_give_back(void);
/* Runs body until SIGINT or SIGTERM: installs handlers that call stop(context) once; a second signal ends the process at once.
 * stop must be async-signal-safe. on_child: SIGCHLD calls it too. */
void signals_install(void (*stop)(void *context), void *context, bool on_child);
/* Undoes that: `context` may be freed, and signals have their default action, until the next signals_install(). */
void signals_reset(void);
/* SIGHUP calls reload(context), which must be async-signal-safe. */
void signals_install_reload(void (*reload)(void *context), void *context);
int signals_interrupted(void); /* the first SIGINT or SIGTERM; 0 = none */
/* True when stderr is a terminal. */
bool terminal_is_interactive(void);

#endif
