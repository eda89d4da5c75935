/* SPDX-License-Identifier: Apache-2.0 */
/* wick saved: the saved queries of a server, and files of them. 'wick query --saved' runs one. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"
#include "cmd/remote.h"
#include "server/saved/saved.h"

#define CALL	  "/api/v1/queries"
#define EXTENSION ".yaml"

/* ---- on a server ---- */

static int path_of(const char *name, const char *format, struct buffer *path, struct error *err)
{
	char call[sizeof(CALL) + SAVED_NAME_MAX + 2] = CALL;
	const struct remote_value value = {"format", format};
	if (name && !saved_name_is_valid(name))
		return error_set(err, -EINVAL, "'%.60s' is no name of a saved query: small letters, digits, - and _", name);
	if (name)
		snprintf(call, sizeof(call), CALL "/%s", name);
	return remote_begin(path, call, &value, 1) < 0 ? error_nomem(err) : 0;
}

static int ask(const struct remote *remote, const char *method, const char *name, const char *format, struct buffer *ret,
	       struct error *err)
{
	_cleanup_(buffer_release) struct buffer path = {0};
	int r = path_of(name, format, &path, err);
	return r < 0 ? r : remote_request(remote, method, &path, ret, err);
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

/* " --param n=20 --param service=VALUE": what may be given, with what it is otherwise. */
static void print_parameters(json_t *parameters)
{
	json_t *parameter;
	size_t i;
	json_array_foreach(parameters, i, parameter)
	{
		const char *fallback = json_string_value(json_object_get(parameter, "default"));
		printf("%s", i ? ", " : "  (");
		cmd_print_harmless(stdout, text_of(parameter, "name"), 0);
		putchar('=');
		cmd_print_harmless(stdout, fallback ? fallback : text_of(parameter, "type"), 0);
	}
	if (json_array_size(parameters))
		putchar(')');
}

static int print_list(struct bytes response, struct error *err)
{
	_cleanup_(json_decrefp) json_t *root = json_loadb((const char *)response.data, response.len, 0, NULL);
	json_t *query, *queries = json_object_get(root, "queries");
	size_t i;
	if (!json_is_array(queries))
		return error_set(err, -EBADMSG, "malformed response from the server: not a list of queries");
	printf("%-24s %-8s %s\n", "name", "origin", "title (parameters)");
	json_array_foreach(queries, i, query)
	{
		const char *fault = json_string_value(json_object_get(query, "error"));
		cmd_print_harmless(stdout, text_of(query, "name"), 24);
		putchar(' ');
		cmd_print_harmless(stdout, text_of(query, "origin"), 8);
		putchar(' ');
		cmd_print_harmless(stdout, fault ? fault : text_of(query, "title"), 0);
		print_parameters(json_object_get(query, "parameters"));
		putchar('\n');
	}
	return 0;
}

static int list(const struct remote *remote, bool json, struct error *err)
{
	_cleanup_(buffer_release) struct buffer response = {0};
	int r = ask(remote, "GET", NULL, NULL, &response, err);
	if (r < 0 || !json)
		return r < 0 ? r : print_list(buffer_bytes(&response), err);
	return buffer_append_byte(&response, '\n') < 0 ? error_nomem(err) : cmd_write("-", buffer_bytes(&response), err);
}

static int show(const struct remote *remote, const char *name, bool json, struct error *err)
{
	_cleanup_(buffer_release) struct buffer response = {0};
	int r = ask(remote, "GET", name, json ? NULL : "yaml", &response, err);
	if (r < 0)
		return r;
	if (!isatty(STDOUT_FILENO))
		return cmd_write("-", buffer_bytes(&response), err);
	for (struct bytes rest = buffer_bytes(&response); rest.len;) {
		cmd_print_harmless_bytes(stdout, bytes_take_line(&rest));
		putchar('\n');
	}
	return 0;
}

static int take_away(const struct remote *remote, const char *name, struct error *err)
{
	_cleanup_(buffer_release) struct buffer response = {0};
	return ask(remote, "DELETE", name, NULL, &response, err);
}

/* ---- files ---- */

static int name_of_file(const char *path, char out[static SAVED_NAME_MAX + 1], struct error *err)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t len = strlen(base), extension = sizeof(EXTENSION) - 1;
	if (len > extension && text_ends_with(base, EXTENSION) && len - extension <= SAVED_NAME_MAX) {
		snprintf(out, SAVED_NAME_MAX + 1, "%.*s", (int)(len - extension), base);
		if (saved_name_is_valid(out))
			return 0;
	}
	return error_set(err, -EINVAL, "%s: must be called NAME" EXTENSION ", of small letters, digits, - and _", path);
}

static int read_file(const char *path, struct buffer *text, char name[static SAVED_NAME_MAX + 1], struct error *err)
{
	_cleanup_(saved_query_freep) struct saved_query *query = NULL;
	int r = name_of_file(path, name, err);
	if (!r)
		r = io_read_file(path, SAVED_BYTES_MAX, text, err);
	return r < 0 ? r : saved_query_read(buffer_bytes(text), path, &query, err);
}

static int push_file(const struct remote *remote, const char *path, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0}, call = {0}, response = {0};
	char name[SAVED_NAME_MAX + 1];
	int r = read_file(path, &text, name, err);
	if (!r)
		r = path_of(name, NULL, &call, err);
	if (!r)
		r = remote_send(remote, "PUT", &call, buffer_bytes(&text), &response, err);
	if (!r)
		cmd_printf(stderr, "%s: saved as '%s'\n", path, name);
	return r;
}

static int check_file(const char *path, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	char name[SAVED_NAME_MAX + 1];
	return read_file(path, &text, name, err);
}

/* All of them, whatever becomes of one. remote: NULL = check only. */
static int for_files(const struct remote *remote, char *const *files, size_t count)
{
	int status = EXIT_DONE;
	for (size_t i = 0; i < count; i++) {
		struct error err = {0};
		if ((remote ? push_file(remote, files[i], &err) : check_file(files[i], &err)) < 0)
			status = cmd_fail("saved", &err);
	}
	if (!remote && status == EXIT_DONE)
		cmd_printf(stderr, "%zu %s\n", count, count == 1 ? "file is a saved query" : "files are saved queries");
	return status;
}

/* ---- the verb ---- */

static int run(const struct usage *usage, const struct remote *remote, bool json, const struct operands *operands)
{
	struct error err = {0};
	const char *command = operands->count ? operands->items[0] : "";
	size_t count = operands->count ? operands->count - 1 : 0;
	bool is_list = strcmp(command, "list") == 0, is_show = strcmp(command, "show") == 0;
	if (!is_list && !is_show && json)
		return usage_error(usage, "--format is for list and show");
	if (strcmp(command, "check") == 0 || strcmp(command, "push") == 0)
		return count ? for_files(strcmp(command, "push") == 0 ? remote : NULL, operands->items + 1, count)
			     : usage_error(usage, "%s: no files given", command);
	if (!is_list && !is_show && strcmp(command, "remove") != 0)
		return usage_error(usage,
				   *command ? "unknown command '%.40s'" : "give a command: list, show, check, push or remove",
				   command);
	if (count != (is_list ? 0 : 1))
		return usage_error(usage, is_list ? "unexpected operand '%s'" : "expected one name",
				   is_list ? operands->items[1] : "");
	int r = is_list	  ? list(remote, json, &err)
		: is_show ? show(remote, operands->items[1], json, &err)
			  : take_away(remote, operands->items[1], &err);
	return r < 0 ? cmd_fail("saved", &err) : EXIT_DONE;
}

int cmd_saved(int argc, char **argv)
{
	struct remote remote = {0};
	const char *format = "text";
	const struct option_row options[] = {
		REMOTE_OPTION_ROWS(&remote),
		{0, "format", "FORMAT", OPTION_TEXT, &format, .help = "list, show: text, json (default: text)"},
		{0}};
	const struct usage usage = {
		.verb = "saved",
		.actions = "list, show, check, push, remove",
		.synopsis = "list | show NAME | check FILE... | push FILE... | remove NAME",
		.description =
			"Saved queries: queries with a name, a title and parameters. list shows those of a server, show\none "
			"of them as a file. check reads files of saved queries (NAME.yaml) and says what is wrong\nwith "
			"them, without a server; push saves them on the server. 'wick query --saved' runs one.",
		.options = options,
		.examples = "wick saved list\nwick query --saved slower-than-before --param service=shop --from now-1d\nwick "
			    "saved check queries/*.yaml"};
	struct operands operands;
	OPTIONS_OR_RETURN(&usage, argc, argv, &operands);
	if (strcmp(format, "text") != 0 && strcmp(format, "json") != 0)
		return usage_error(&usage, "--format: '%.40s' must be text or json", format);
	return run(&usage, &remote, strcmp(format, "json") == 0, &operands);
}
