/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service that root starts does not stay root.
 *
 * The server becomes
 *
 *   the user that --user or the configuration names; root = it stays
 *   the owner of its data directory, if that is not root
 *   whoever called sudo, if the data directory is new (wick up and wick server on a developer's machine)
 *   wick, whom the packages make; else nobody
 *
 * and the agent wick-agent, whom the packages make, else nobody, with its six capabilities; not the user that the server of the
 * same machine has, since processes of one user may stop each other. Where neither is possible (a container with one user, or
 * without CAP_SETUID), they stay what they are and say so.
 *
 * What needs root is done before, or by a broker (base/privilege/broker.h): the configuration and the token are read before;
 * TLS files, the file of tokens, the configuration and files that it names are read while the server runs, ports below 1024 are
 * opened once it has its store, and the audit log is opened again when it was moved away; so where the user may not do all that
 * itself, the broker does.
 *
 * Then both are locked in (base/privilege/confine.h), also when somebody else than root has started them. The server may write
 * below its data directory and where the audit log is, and execute itself (workers), git if it has repositories to show, and
 * what loads programs. It may read what its user may, since symbols are looked for in files that profiles name. The agent has
 * no such rules of files: Landlock would keep it from looking into the processes that it samples.
 */
#include "cmd/service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/privileges.h"
#include "base/alloc.h"
#include "base/io.h"
#include "base/log.h"
#include "base/privilege/broker.h"
#include "base/privilege/confine.h"
#include "base/text.h"
#include "codec/yaml_fields.h"
#include "daemon/collector.h"
#include "export/export.h"
#include "server/server.h"

#define SERVER_USER	 "wick"
#define FALLBACK_USER	 "nobody"
#define PRIVILEGED_PORTS 1024
#define AGENT_CACHE	 "/var/cache/wick-agent"
#define AGENT_NICE	 (-10)
#define FILES_MAX	 1024
#define CONFIG_MAX	 ((size_t)256 * 1024) /* as the server has it */

/* What a data directory has in it, whatever has been stored. */
static const char *const data_names[] = {"lock", "blocks", "log", "tenants", NULL};
static const char *const spool_names[] = {"lock", "server", "*-*", NULL};
static const char *const cache_names[] = {"*.unwind", "symbols", NULL};

/* ---- who ---- */

static bool has_capability(cap_value_t capability)
{
	cap_flag_value_t value = CAP_CLEAR;
	cap_t now = cap_get_proc();
	bool has = now && cap_get_flag(now, capability, CAP_EFFECTIVE, &value) == 0 && value == CAP_SET;
	if (now)
		cap_free(now);
	return has;
}

/* Whether this process can become a user and give it files: a container may have one user only. */
static bool can_become(const struct user *user)
{
	if (!has_capability(CAP_SETUID) || !has_capability(CAP_SETGID) || !has_capability(CAP_CHOWN))
		return false;
	/* The saved one tells whether there is such a user here, and changes nothing else. */
	if (setresuid((uid_t)-1, (uid_t)-1, user->uid) < 0)
		return false;
	return setresuid((uid_t)-1, (uid_t)-1, 0) == 0;
}

static void decide(struct service *service, const struct user *user)
{
	service->user = *user;
	service->changes = geteuid() == 0 && user->uid != 0;
	if (!service->changes || can_become(user))
		return;
	service->changes = false;
	user_of(geteuid(), &service->user);
	log_warn("%s: runs as root: it cannot become %s, since this system or container has no such user, or does not give "
		 "CAP_SETUID, CAP_SETGID and CAP_CHOWN",
		 service->name, user->name);
}

/* 0 = given or known; > 0: it is to be chosen. */
static int use_given(const struct service_arguments *arguments, struct service *ret, struct error *err)
{
	struct user user;
	if (geteuid() != 0) {
		user_of(geteuid(), &user);
		decide(ret, &user);
		if (!arguments->user)
			return 0;
		int r = user_find(arguments->user, &user, err);
		if (r == 0 && user.uid != geteuid())
			r = error_set(err, -EPERM, "only root can run it as user %s; this is user %s", user.name,
				      ret->user.name);
		return r < 0 ? r : 0;
	}
	if (!arguments->user)
		return 1;
	int r = user_find(arguments->user, &user, err);
	if (r < 0)
		return r;
	if (user.uid && !can_become(&user))
		return error_set(err, -EPERM,
				 "cannot become user %s: this system or container does not allow it; --user root stays root",
				 user.name);
	decide(ret, &user);
	return 0;
}

static void choose_server_user(const char *directory, struct user *ret)
{
	struct stat status;
	bool exists = stat(directory, &status) == 0;
	if (exists && status.st_uid != 0)
		user_of(status.st_uid, ret);
	else if ((exists || !user_find_sudo(ret)) && user_find(SERVER_USER, ret, NULL) < 0 &&
		 user_find(FALLBACK_USER, ret, NULL) < 0)
		user_of(65534, ret);
}

/* ---- the server ---- */

/* In a directory that others may write to, a link could be in its place. */
static int hand_over_file(const struct user *user, const char *path, struct error *err)
{
	struct stat status;
	_cleanup_(fd_closep) int fd = io_open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600, err);
	if (fd < 0)
		return fd;
	if (fstat(fd, &status) < 0)
		return error_set_errno(err, -errno, "cannot open %s", path);
	if (status.st_uid != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1)
		return 0; /* the server says whether it can use it */
	if (fchown(fd, user->uid, user->gid) < 0)
		return error_set_errno(err, -errno, "cannot change the owner of %s to user %s", path, user->name);
	return 0;
}

int service_server_prepare(const struct service_arguments *arguments, const struct server_options *options, struct service *ret,
			   struct error *err)
{
	struct service_arguments merged = {arguments->user ? arguments->user : options->user,
					   arguments->no_sandbox || options->no_sandbox};
	struct user user;
	*ret = (struct service){.name = "server", .no_sandbox = merged.no_sandbox};
	int r = use_given(&merged, ret, err);
	if (r > 0) {
		choose_server_user(options->data_directory, &user);
		decide(ret, &user);
		r = 0;
	}
	if (r < 0 || !ret->changes)
		return r;
	return user_hand_over(&ret->user, options->data_directory, data_names, err);
}

/* The directory that a file is in. */
static void directory_of(const char *path, char out[static PATH_MAX])
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	snprintf(out, PATH_MAX, "%.*s", slash ? (int)(slash - path) : 0, path ? path : "");
	if (path && *path && !*out)
		snprintf(out, PATH_MAX, "%s", slash ? "/" : ".");
}

static uint16_t privileged_port(const char *listen)
{
	const char *colon = listen ? strrchr(listen, ':') : NULL;
	uint64_t port = 0;
	return colon && text_parse_u64(colon + 1, &port, NULL) == 0 && port < PRIVILEGED_PORTS ? (uint16_t)port : 0;
}

/* Files that the server reads, which may be root's: those of options, and all that the configuration names. */
struct file_list {
	char **paths;
	size_t count, capacity;
};

static int add_file(struct file_list *list, const char *path, struct error *err)
{
	struct stat status;
	/* Else whoever puts a link in its place would have the broker read what it leads to. */
	if (!path || !*path || stat(path, &status) < 0 || !S_ISREG(status.st_mode) || list->count >= FILES_MAX ||
	    !user_only_root_decides(path))
		return 0;
	int r = array_reserve(&list->paths, &list->capacity, list->count + 1, FILES_MAX);
	char *copy = r < 0 ? NULL : mem_strdup(path);
	if (!copy)
		return error_nomem(err);
	list->paths[list->count++] = copy;
	return 0;
}

/* Whoever may change the configuration of what root starts decides what it does; so its texts may name files, too. */
static int add_files_of_config(struct file_list *list, const char *path, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	yaml_document_t document;
	if (!path || io_read_file(path, CONFIG_MAX, &text, NULL) < 0 ||
	    yaml_load(buffer_bytes(&text), path, -EINVAL, &document, NULL) < 0)
		return 0; /* it has been read; what is wrong with it has been reported */
	int r = 0;
	const yaml_node_t *node;
	for (int i = 1; r == 0 && (node = yaml_document_get_node(&document, i)); i++)
		if (node->type == YAML_SCALAR_NODE && node->data.scalar.value[0] == '/')
			r = add_file(list, (const char *)node->data.scalar.value, err);
	yaml_document_delete(&document);
	return r;
}

static int list_files(const struct server_options *options, struct file_list *list, struct error *err)
{
	const char *const own[] = {options->config_path, options->tokens_file, options->tls_cert_file, options->tls_key_file,
				   options->tls_client_ca_file};
	int r = 0;
	for (size_t i = 0; i < sizeof(own) / sizeof(*own) && r == 0; i++)
		r = add_file(list, own[i], err);
	return r < 0 ? r : add_files_of_config(list, options->config_path, err);
}

struct wish {
	const char *path;
	int mode; /* of access() */
};

/* Whether the user can do all of it, found out by a process that has become the user. */
static bool can_do(const struct user *user, const struct wish *wishes, size_t count)
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		bool can = user_become(user, NULL, 0, NULL) == 0;
		for (size_t i = 0; i < count && can; i++)
			can = access(wishes[i].path, wishes[i].mode) == 0;
		_exit(can ? 0 : 1);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool can_read_all(const struct user *user, const struct file_list *list)
{
	struct wish wishes[FILES_MAX];
	for (size_t i = 0; i < list->count; i++)
		wishes[i] = (struct wish){list->paths[i], R_OK};
	return can_do(user, wishes, list->count);
}

/* The audit log may be moved away under the server: it is the user's if its directory is, or else the broker's. */
static int prepare_log(const struct user *user, const char *path, const char **ret_granted, struct error *err)
{
	char directory[PATH_MAX];
	if (!path || !*path)
		return 0;
	directory_of(path, directory);
	if (can_do(user, &(struct wish){directory, W_OK | X_OK}, 1))
		return hand_over_file(user, path, err);
	*ret_granted = path;
	return 0;
}

static int start_broker(const struct service *service, const struct server_options *options, struct error *err)
{
	static struct file_list list; /* to the end: the broker's list is the same as ours */
	const char *log = NULL;
	int r = list_files(options, &list, err);
	if (r == 0)
		r = prepare_log(&service->user, options->audit_file, &log, err);
	if (r < 0)
		return r;
	const struct broker_grants grants = {.files = list.paths,
					     .file_count = list.count,
					     .log = log,
					     .ports = {privileged_port(options->listen),
						       privileged_port(options->otlp_grpc_listen),
						       privileged_port(options->otlp_http_listen)}};
	bool has_ports = grants.ports[0] || grants.ports[1] || grants.ports[2];
	return !has_ports && !log && can_read_all(&service->user, &list) ? 0 : broker_start(&grants, err);
}

static int confine_server_files(const struct server_options *options, struct error *err)
{
	char audit[PATH_MAX];
	directory_of(options->audit_file, audit);
	bool has_git = options->vcs_directory && *options->vcs_directory;
	const struct confine_path paths[] = {
		{"/", CONFINE_READ},
		{options->data_directory, CONFINE_WRITE},
		{audit, CONFINE_WRITE},
		{"/dev/null", CONFINE_WRITE},
		{"/proc/self/exe", CONFINE_EXECUTE},
		{"/lib", CONFINE_EXECUTE},
		{"/lib64", CONFINE_EXECUTE},
		{has_git ? "/usr/bin/git" : NULL, CONFINE_EXECUTE},
		{has_git ? "/usr/lib/git-core" : NULL, CONFINE_EXECUTE},
		{has_git ? "/usr/libexec/git-core" : NULL, CONFINE_EXECUTE},
	};
	int r = confine_files(paths, sizeof(paths) / sizeof(*paths), err);
	if (r == CONFINE_ABSENT)
		log_debug("server: this kernel has no Landlock (or is older than 5.19): what files it may write is up to its "
			  "user");
	return r < 0 ? r : 0;
}

/* What cannot be had is reported, and not fatal: containers and old kernels may forbid it, and a server without it is what it
 * was before. */
static int confine(const struct service *service, const struct server_options *options, const struct confine_calls *calls,
		   struct error *err)
{
	struct error why = {0};
	int r = confine_no_new_privileges(err);
	if (r < 0 || service->no_sandbox)
		return r;
	if (options && confine_server_files(options, &why) < 0)
		log_warn("%s: files are not confined: %s", service->name, why.message);
	if (confine_calls(calls, &why) < 0)
		log_warn("%s: system calls are not restricted: %s", service->name, why.message);
	return 0;
}

int service_server_enter(const struct service *service, const struct server_options *options, struct error *err)
{
	static const struct confine_calls calls = {0};
	int r = 0;
	if (service->changes) {
		r = start_broker(service, options, err);
		if (r == 0)
			r = user_become(&service->user, NULL, 0, err);
	} else if (geteuid() != 0) {
		r = user_keep_capabilities((const cap_value_t[]){CAP_NET_BIND_SERVICE}, 1, err);
	}
	/* What is made later cannot be named in a rule. */
	if (r == 0)
		r = io_make_dirs(options->data_directory, 0750, err);
	if (r < 0 && r != -EACCES)
		return r;
	if (access(options->data_directory, R_OK | W_OK | X_OK) < 0)
		return error_set_errno(
			err, -errno,
			"the server's user %s cannot use %s; choose another directory with --data DIR, or another "
			"user with --user USER",
			service->user.name, options->data_directory);
	return confine(service, options, &calls, err);
}

/* ---- the agent ---- */

static bool has_user(const char *name, const struct user *not_as, struct user *ret)
{
	return user_find(name, ret, NULL) == 0 && (!not_as || not_as->uid != ret->uid);
}

/* Directories that are root's by default get a name of their own, since `wick record` of root uses those. */
static int hand_over_directories(const struct service *service, struct collector_options *options, struct error *err)
{
	int r = 0;
	if (options->agent.cache_directory && !getenv("WICK_CACHE"))
		options->agent.cache_directory = AGENT_CACHE;
	if (options->spool_directory)
		r = user_hand_over(&service->user, options->spool_directory, spool_names, err);
	if (r == 0 && options->agent.cache_directory)
		r = user_hand_over(&service->user, options->agent.cache_directory, cache_names, err);
	return r;
}

int service_agent_prepare(const struct service_arguments *arguments, const struct user *not_as,
			  struct collector_options *options, struct service *ret, struct error *err)
{
	struct user user;
	*ret = (struct service){.name = "agent", .no_sandbox = arguments->no_sandbox};
	int r = use_given(arguments, ret, err);
	if (r > 0) {
		if (!has_user(AGENT_USER, not_as, &user) && !has_user(FALLBACK_USER, not_as, &user))
			user_of(0, &user);
		decide(ret, &user);
		r = 0;
	}
	return r < 0 || !ret->changes ? r : hand_over_directories(ret, options, err);
}

/* What only root may raise, for later: a thread that leads (base/thread.h), memory of BPF before Linux 5.11. */
static void raise_limits(void)
{
	const struct rlimit nice = {20 - AGENT_NICE, 20 - AGENT_NICE}, memory = {RLIM_INFINITY, RLIM_INFINITY};
	setrlimit(RLIMIT_NICE, &nice);
	setrlimit(RLIMIT_MEMLOCK, &memory);
}

int service_agent_enter(const struct service *service, struct error *err)
{
	static const int more[] = {SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(process_vm_readv),
				   SCMP_SYS(name_to_handle_at), SCMP_SYS(open_by_handle_at)};
	static const struct confine_calls calls = {more, sizeof(more) / sizeof(*more), .perf_ioctls = true};
	int r = 0;
	if (service->changes) {
		raise_limits();
		r = user_become(&service->user, agent_capabilities, AGENT_CAPABILITY_COUNT, err);
	}
	return r < 0 ? r : confine(service, NULL, &calls, err);
}
