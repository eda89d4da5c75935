/* SPDX-License-Identifier: Apache-2.0 */
/* wick token: the file of a server's tokens. Only files: a server sees within a second that one has changed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "codec/json.h"
#include "server/access/tokens.h"
#include "server/server.h"

#define DEFAULT_FILE "/etc/wick/tokens.yaml"
#define PATH_MAX_LEN 4096

struct arguments {
	const char *file, *name, *expires, *certificate, *format;
	struct option_list roles, tenants;
};

/* ---- the file ---- */

static int directory_of(const char *path, char out[static PATH_MAX_LEN], struct error *err)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 1;
	if (len >= PATH_MAX_LEN)
		return error_set(err, -ENAMETOOLONG, "the path is too long");
	snprintf(out, PATH_MAX_LEN, "%.*s", (int)(slash ? (len ? len : 1) : 1), slash ? path : ".");
	return 0;
}

/* Of the directory, since the file is replaced: who edits at the same time waits. Returns the descriptor. */
static int lock_directory(const char *path, struct error *err)
{
	char directory[PATH_MAX_LEN];
	int r = directory_of(path, directory, err);
	int fd = r < 0 ? r : io_open(directory, O_RDONLY | O_DIRECTORY, 0, err);
	while (fd >= 0 && (r = flock(fd, LOCK_EX)) < 0 && errno == EINTR)
		;
	if (fd >= 0 && r < 0) {
		r = error_set_errno(err, -errno, "cannot lock %s", directory);
		io_close(fd);
		return r;
	}
	return fd;
}

/* Owner and mode stay, as it may be a service's file that root edits; a new one is for its owner. */
static int keep_owner(int fd, const struct stat *before, const char *path, struct error *err)
{
	if (before && (fchown(fd, before->st_uid, before->st_gid) < 0 || fchmod(fd, before->st_mode & 0755) < 0))
		return error_set_errno(err, -errno, "cannot keep the owner of %s", path);
	return 0;
}

static int replace(const char *path, struct bytes text, const struct stat *before, struct error *err)
{
	char temporary[PATH_MAX_LEN], directory[PATH_MAX_LEN];
	int r = directory_of(path, directory, err);
	if (r < 0)
		return r;
	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.%ld.tmp", path, (long)getpid()) >= sizeof(temporary))
		return error_set(err, -ENAMETOOLONG, "the path is too long");
	int fd = io_open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
	if (fd < 0)
		return fd;
	r = io_write(fd, text.data, text.len, temporary, err);
	if (r >= 0)
		r = keep_owner(fd, before, path, err);
	if (r >= 0)
		r = io_sync(fd, temporary, err);
	io_close(fd);
	if (r >= 0)
		r = io_rename(temporary, path, err);
	if (r < 0) {
		io_unlink(temporary, NULL);
		return r;
	}
	return io_sync_dir(directory, err);
}

typedef int (*edit_function)(struct bytes text, const char *file, const void *context, struct buffer *out, struct error *err);

static int edit(const char *path, bool may_be_new, edit_function change, const void *context, struct error *err)
{
	_cleanup_(buffer_release) struct buffer before = {0}, after = {0};
	struct stat info;
	int lock = lock_directory(path, err);
	if (lock < 0)
		return lock;
	bool is_there = stat(path, &info) == 0 || errno != ENOENT || !may_be_new;
	int r = is_there ? io_read_file(path, TOKENS_FILE_MAX, &before, err) : 0;
	if (r >= 0 && is_there && !before.len)
		r = error_set(err, -EINVAL, "%s: the file is empty; a file without tokens has the line 'tokens: []'", path);
	if (r >= 0)
		r = change(buffer_bytes(&before), path, context, &after, err);
	if (r >= 0)
		r = replace(path, buffer_bytes(&after), is_there ? &info : NULL, err);
	io_close(lock);
	return r;
}

/* ---- create, revoke ---- */

static int add_entry(struct bytes text, const char *file, const void *context, struct buffer *out, struct error *err)
{
	return tokens_add(text, file, context, out, err);
}

static int remove_entry(struct bytes text, const char *file, const void *context, struct buffer *out, struct error *err)
{
	return tokens_remove(text, file, context, out, err);
}

static int parse_expires(const char *text, int64_t *ret_ns, struct error *err)
{
	int64_t now_ns = time_now_ns(), duration_ns;
	if (!text)
		return 0;
	if (time_parse_duration(text, &duration_ns, NULL) == 0 && duration_ns > 0 && duration_ns < INT64_MAX - now_ns)
		*ret_ns = now_ns + duration_ns;
	else if (time_parse(text, now_ns, ret_ns, NULL) < 0)
		return error_set(err, -EINVAL, "--expires: '%.40s' is neither a duration (90d) nor a time (2027-03-01)", text);
	return *ret_ns > now_ns ? 0 : error_set(err, -EINVAL, "--expires: '%.40s' is in the past", text);
}

static int parse_tenants(const struct arguments *arguments, struct token_entry *entry, struct error *err)
{
	const struct option_list *list = &arguments->tenants;
	if (list->count > TOKEN_TENANTS_MAX)
		return error_set(err, -EINVAL, "--tenant: at most %d", TOKEN_TENANTS_MAX);
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->items[i], TOKEN_ALL_TENANTS) == 0)
			entry->tenants.all = true;
		else if (tenant_name_check(list->items[i], err) < 0)
			return error_set(err, -EINVAL, "--tenant: '%.40s' is no name of a tenant", list->items[i]);
	}
	entry->tenants.names = ((struct arguments *)(uintptr_t)arguments)->tenants.items;
	entry->tenants.count = list->count;
	return 0;
}

static int make_entry(const struct arguments *arguments, struct token_entry *entry, struct error *err)
{
	*entry = (struct token_entry){.name = arguments->name, .certificate = arguments->certificate};
	if (!token_name_is_valid(entry->name))
		return error_set(err, -EINVAL, "--name: must have 1 to %d letters, digits and .-_@", CALLER_NAME_MAX);
	for (size_t i = 0; i < arguments->roles.count; i++) {
		unsigned role = role_parse(arguments->roles.items[i]);
		if (!role)
			return error_set(err, -EINVAL, "--role: '%.40s' must be agent, write, read, record or admin",
					 arguments->roles.items[i]);
		entry->roles |= role;
	}
	int r = parse_tenants(arguments, entry, err);
	return r < 0 ? r : parse_expires(arguments->expires, &entry->expires_ns, err);
}

static int create(const struct arguments *arguments, struct error *err)
{
	char token[TOKEN_TEXT_SIZE] = "";
	struct token_entry entry;
	int r = make_entry(arguments, &entry, err);
	entry.has_hash = !entry.certificate;
	if (r == 0 && entry.has_hash)
		r = token_make(token, entry.hash, err);
	if (r == 0)
		r = edit(arguments->file, true, add_entry, &entry, err);
	if (r < 0)
		return r;
	if (entry.has_hash) {
		printf("%s\n", token);
		if (isatty(STDERR_FILENO))
			cmd_printf(stderr, "wick token: this is shown once; %s has its hash only\n", arguments->file);
	}
	explicit_bzero(token, sizeof(token));
	return 0;
}

/* ---- list ---- */

static const char *tenants_text(const struct token_tenants *tenants, struct buffer *out)
{
	buffer_clear(out);
	for (size_t i = 0; i < tenants->count; i++)
		buffer_printf(out, "%s%s", i ? "," : "", tenants->names[i]);
	if (!tenants->count)
		buffer_append_string(out, TOKEN_DEFAULT_TENANT);
	const char *text = buffer_string(out);
	return text ? text : "?";
}

static void print_entry(const struct token_entry *entry, struct buffer *scratch)
{
	char roles[ROLES_TEXT_MAX], time[TIME_TEXT_MAX];
	cmd_print_harmless(stdout, entry->name, 24);
	printf(" %-11s %-16s ", entry->has_hash ? "token" : "certificate", roles_format(entry->roles, roles));
	cmd_print_harmless(stdout, tenants_text(&entry->tenants, scratch), 24);
	printf(" %s%s\n", entry->expires_ns ? time_format(entry->expires_ns, time) : "never",
	       entry->expires_ns && entry->expires_ns <= time_now_ns() ? " (expired)" : "");
}

static void write_entry_json(struct json_writer *json, const struct token_entry *entry)
{
	char time[TIME_TEXT_MAX];
	json_begin_object(json);
	json_member_cstring(json, "name", entry->name);
	json_member_array(json, "roles");
	for (unsigned i = 0; i < ROLE_COUNT; i++)
		if (entry->roles & 1u << i)
			json_cstring(json, role_names[i]);
	json_end_array(json);
	json_member_array(json, "tenants");
	for (size_t i = 0; i < entry->tenants.count; i++)
		json_cstring(json, entry->tenants.names[i]);
	if (!entry->tenants.count)
		json_cstring(json, TOKEN_DEFAULT_TENANT);
	json_end_array(json);
	if (entry->certificate)
		json_member_cstring(json, "certificate", entry->certificate);
	if (entry->expires_ns)
		json_member_cstring(json, "expires", time_format(entry->expires_ns, time));
	json_member_bool(json, "expired", entry->expires_ns && entry->expires_ns <= time_now_ns());
	json_end_object(json);
}

static int list(const struct arguments *arguments, struct error *err)
{
	_cleanup_(tokens_freep) struct tokens *tokens = NULL;
	_cleanup_(buffer_release) struct buffer out = {.max = 8 * TOKENS_FILE_MAX};
	int r = tokens_load(arguments->file, &tokens, err);
	if (r < 0)
		return r;
	if (strcmp(arguments->format, "json") != 0) {
		printf("%-24s %-11s %-16s %-24s %s\n", "name", "kind", "role", "tenants", "expires");
		for (size_t i = 0; i < tokens->count; i++)
			print_entry(&tokens->items[i], &out);
		return 0;
	}
	struct json_writer json = {.out = &out};
	json_begin_array(&json);
	for (size_t i = 0; i < tokens->count; i++)
		write_entry_json(&json, &tokens->items[i]);
	json_end_array(&json);
	r = json_finish(&json, err);
	return r < 0 || printf("%s\n", buffer_string(&out)) >= 0 ? r : error_set(err, -EIO, "cannot write");
}

/* ---- the verb ---- */

static int run(const struct usage *usage, const struct arguments *arguments, const struct operands *operands)
{
	struct error err = {0};
	const char *command = operands->count ? operands->items[0] : "";
	bool is_create = strcmp(command, "create") == 0, is_list = strcmp(command, "list") == 0;
	int r;
	if (!is_create && !is_list && strcmp(command, "revoke") != 0)
		return usage_error(usage, *command ? "unknown command '%.40s'" : "give a command: create, list or revoke",
				   command);
	if (!is_create && (arguments->name || arguments->roles.count || arguments->tenants.count || arguments->expires ||
			   arguments->certificate))
		return usage_error(usage, "--name, --role, --tenant, --expires and --certificate are for create");
	if (operands->count != (is_create || is_list ? 1 : 2))
		return usage_error(usage, is_create || is_list ? "unexpected operand '%.40s'" : "expected one name",
				   operands->count > 1 ? operands->items[1] : "");
	if (is_create && (!arguments->name || !arguments->roles.count))
		return usage_error(usage, "create needs --name and --role");
	if (is_create)
		r = create(arguments, &err);
	else if (is_list)
		r = list(arguments, &err);
	else
		r = edit(arguments->file, false, remove_entry, operands->items[1], &err);
	return r < 0 ? cmd_fail("token", &err) : EXIT_DONE;
}

int cmd_token(int argc, char **argv)
{
	struct arguments arguments = {.file = DEFAULT_FILE, .format = "text"};
	const struct option_row options[] = {
		{0, "file", "FILE", OPTION_TEXT, &arguments.file,
		 .help = "the server's file of tokens\n(default: " DEFAULT_FILE ")"},
		{0, "name", "NAME", OPTION_TEXT, &arguments.name, .help = "create: its name, in lists and in the audit log"},
		{0, "role", "ROLE", OPTION_LIST, &arguments.roles,
		 .help = "create: agent, write, read, record or admin; may be repeated"},
		{0, "tenant", "TENANT", OPTION_LIST, &arguments.tenants,
		 .help = "create: a tenant that it may use, '*' for all; may be\nrepeated (default: the one without a name)"},
		{0, "expires", "TIME", OPTION_TEXT, &arguments.expires,
		 .help = "create: after this long (90d), or at this time\n(default: never)"},
		{0, "certificate", "NAME", OPTION_TEXT, &arguments.certificate,
		 .help = "create: no token, but for who has a client certificate\nwith this name"},
		{0, "format", "FORMAT", OPTION_TEXT, &arguments.format, .help = "list: text, json (default: text)"},
		{0}};
	const struct usage usage = {
		.verb = "token",
		.actions = "create, list, revoke",
		.synopsis = "create --name NAME --role ROLE... | list | revoke NAME",
		.description = "Tokens of a server, with roles and tenants, in the file that 'wick server --tokens FILE' "
			       "reads. create\nprints a new token, once; the file has its hash. The server sees changes within "
			       "a second.",
		.options = options,
		.examples = "wick token create --name agents --role agent > agent.token\nwick token create --name ada --role "
			    "record --tenant shop --expires 90d\nwick token revoke ada"};
	struct operands operands;
	OPTIONS_OR_RETURN(&usage, argc, argv, &operands);
	if (strcmp(arguments.format, "text") != 0 && strcmp(arguments.format, "json") != 0)
		return usage_error(&usage, "--format: '%.40s' must be text or json", arguments.format);
	return run(&usage, &arguments, &operands);
}
