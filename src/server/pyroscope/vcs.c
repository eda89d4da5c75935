/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vcs.v1.VCSService (github.com/grafana/pyroscope, api/vcs/v1/vcs.proto): source code beside a flame graph. Pyroscope reads it
 * from GitHub, with a login of the user's; here it comes from repositories on the server, below the directory `vcs.directory`.
 * Without that setting, and for logins, calls are UNIMPLEMENTED, as from a Pyroscope that has no GitHub application.
 *
 *   GetFile     1 repositoryURL  2 ref  3 localPath  4 rootPath  5 functionName   ->  1 content (base64)  2 URL
 *   GetCommit   1 repositoryURL  2 ref              ->  1 message  2 author { 1 login }  3 date  4 sha  5 URL
 *   GetCommits  1 repository_url  2 refs*           ->  1 commits*, those of the refs that there are
 *
 * localPath is what symbols say: "/build/shop/pkg/cart/cart.go", "github.com/acme/shop/pkg/cart/cart.go". The repository has a
 * file of some ending of that. So the part up to the repository's own name goes, if it is there, and then one leading folder
 * after the other, all of them below rootPath; the longest ending that is a file is taken. A profile has only the names of
 * functions and files that its program was built from, so nothing is searched for by functionName.
 *
 * Whoever may query may read what is in these repositories, whatever the tenant.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "codec/base64.h"
#include "codec/protobuf.h"
#include "server/http/rpc.h"
#include "server/http/rpc_read.h"
#include "server/pyroscope/git.h"
#include "server/pyroscope/messages.h"

#define REFS_MAX    100
#define TEXTS_MAX   (256 * KIB)
#define PATH_LENGTH 1024

#define MESSAGE PB_JSON_MESSAGE_OF

static const struct pb_json_message file_request =
	MESSAGE("GetFileRequest", {"repositoryURL", 1, PB_JSON_STRING}, {"ref", 2, PB_JSON_STRING},
		{"localPath", 3, PB_JSON_STRING}, {"rootPath", 4, PB_JSON_STRING}, {"functionName", 5, PB_JSON_STRING});
static const struct pb_json_message file_answer =
	MESSAGE("GetFileResponse", {"content", 1, PB_JSON_STRING}, {"URL", 2, PB_JSON_STRING});
static const struct pb_json_message commit_request =
	MESSAGE("GetCommitRequest", {"repositoryURL", 1, PB_JSON_STRING}, {"ref", 2, PB_JSON_STRING});
static const struct pb_json_message author =
	MESSAGE("CommitAuthor", {"login", 1, PB_JSON_STRING}, {"avatarURL", 2, PB_JSON_STRING});
static const struct pb_json_message commit =
	MESSAGE("CommitInfo", {"message", 1, PB_JSON_STRING}, {"author", 2, PB_JSON_MESSAGE, .message = &author},
		{"date", 3, PB_JSON_STRING}, {"sha", 4, PB_JSON_STRING}, {"URL", 5, PB_JSON_STRING});
static const struct pb_json_message commits_request =
	MESSAGE("GetCommitsRequest", {"repositoryUrl", 1, PB_JSON_STRING}, {"refs", 2, PB_JSON_STRING, .repeated = true});
static const struct pb_json_message commits_answer =
	MESSAGE("GetCommitsResponse", {"commits", 1, PB_JSON_MESSAGE, .repeated = true, .message = &commit});

struct vcs_request {
	const char *url, *ref, *path, *root; /* "" = not there */
	struct rpc_list refs;
};
#define IN(member) offsetof(struct vcs_request, member)
static const struct rpc_member members[] = {{"repositoryURL", IN(url)},
					    {"repositoryUrl", IN(url)},
					    {"ref", IN(ref)},
					    {"localPath", IN(path)},
					    {"rootPath", IN(root)},
					    {"refs", IN(refs), RPC_LIST},
					    {0}};

struct vcs {
	struct arena arena;
	struct vcs_request in;
	struct git git;
};

static void vcs_release(struct vcs *vcs)
{
	if (vcs->git.directory >= 0)
		git_close(&vcs->git);
	arena_release(&vcs->arena);
}

static int vcs_begin(struct vcs *vcs, struct rpc_call *call, struct bytes request, struct error *err)
{
	const char *root = call->server->options.vcs_directory;
	*vcs = (struct vcs){
		.arena.max_bytes = TEXTS_MAX, .in = {.url = "", .ref = "", .path = "", .root = ""}, .git.directory = -1};
	const struct rpc_reader reader = {members, &vcs->arena, REFS_MAX};
	if (!root || !*root) {
		call->code = GRPC_UNIMPLEMENTED;
		return error_set(err, -EINVAL, "no repositories are configured on this server (vcs.directory)");
	}
	int r = rpc_read(&reader, request, call->method->request, &vcs->in, err);
	return r < 0 ? r : git_open(root, vcs->in.url, net_request_cancelled(call->request), &vcs->git, err);
}

/* ---- files ---- */

/* Where "OWNER/NAME/" of the URL ends in the path, or its beginning. */
static const char *skip_repository(const char *path, const char *url)
{
	const char *scheme = strstr(url, "://"), *name = scheme ? scheme + 3 : url;
	size_t len = strlen(name);
	while (len && name[len - 1] == '/')
		len--;
	if (len > 4 && memcmp(name + len - 4, ".git", 4) == 0)
		len -= 4;
	const char *found = len ? memmem(path, strlen(path), name, len) : NULL;
	return found && found[len] == '/' ? found + len + 1 : path;
}

/* Below the root path; NULL: it would be too long, or a part of it is no name ("..", "."). */
static const char *join(struct arena *arena, const char *root, const char *path)
{
	char text[PATH_LENGTH];
	size_t len = strlen(root);
	while (len && root[len - 1] == '/')
		len--;
	int n = snprintf(text, sizeof(text), "%.*s%s%s", (int)len, root, len ? "/" : "", path);
	if (n <= 0 || n >= (int)sizeof(text))
		return NULL;
	for (const char *at = text; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL) {
		size_t part = strcspn(at, "/");
		if (part == 0 || (part == 1 && *at == '.') || (part == 2 && at[0] == '.' && at[1] == '.'))
			return NULL;
	}
	return arena_strndup(arena, text, (size_t)n);
}

static size_t list_paths(struct vcs *vcs, const char *ret[static GIT_PATHS_MAX])
{
	const char *path = skip_repository(vcs->in.path, vcs->in.url), *root = vcs->in.root;
	size_t count = 0;
	while (*root == '/')
		root++;
	while (path && count < GIT_PATHS_MAX) {
		while (*path == '/')
			path++;
		const char *slash = strchr(path, '/'), *whole = *path ? join(&vcs->arena, root, path) : NULL;
		if (whole)
			ret[count++] = whole;
		path = slash;
	}
	return count;
}

static int write_file(const struct vcs *vcs, const char *sha, const char *path, const struct buffer *content,
		      struct buffer *out, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = 2 * GIT_FILE_MAX}, url = {.max = TEXTS_MAX};
	int r = base64_encode(buffer_bytes(content), &text);
	buffer_printf(&url, "%s/blob/%s/%s", vcs->in.url, sha, path);
	if (r < 0 || buffer_status(&url) < 0)
		return error_nomem(err);
	pb_write_bytes(out, 1, text.data, text.len);
	return rpc_too_large(pb_write_text(out, 2, buffer_bytes(&url)), err);
}

static int handle_file(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	_cleanup_(vcs_release) struct vcs vcs = {.git.directory = -1};
	_cleanup_(buffer_release) struct buffer content = {.max = GIT_FILE_MAX};
	const char *paths[GIT_PATHS_MAX];
	char sha[GIT_SHA_SIZE];
	size_t count = 0, which;
	int r = vcs_begin(&vcs, call, request, err);
	if (!r && (count = list_paths(&vcs, paths)) == 0)
		r = error_set(err, -EINVAL, "localPath '%.200s' is not the path of a file", vcs.in.path);
	if (!r)
		r = git_find_commit(&vcs.git, vcs.in.ref, sha, err);
	if (!r)
		r = git_read_file(&vcs.git, sha, paths, count, &which, &content, err);
	return r < 0 ? r : write_file(&vcs, sha, paths[which], &content, out, err);
}

/* ---- commits ---- */

static int write_commit(const struct vcs *vcs, const char *ref, struct buffer *out, struct error *err)
{
	_cleanup_(git_commit_release) struct git_commit found = {0};
	char sha[GIT_SHA_SIZE];
	size_t mark;
	int r = git_find_commit(&vcs->git, ref, sha, err);
	if (!r)
		r = git_read_commit(&vcs->git, sha, &found, err);
	if (r < 0)
		return r;
	_cleanup_(buffer_release) struct buffer url = {.max = TEXTS_MAX};
	buffer_printf(&url, "%s/commit/%s", vcs->in.url, sha);
	pb_put_text(out, 1, buffer_bytes(&found.message));
	pb_begin(out, 2, &mark);
	pb_put_text(out, 1, bytes_of_string(found.author));
	pb_end(out, mark);
	pb_put_string(out, 3, found.date);
	pb_write_string(out, 4, sha);
	return rpc_too_large(pb_write_text(out, 5, buffer_bytes(&url)), err);
}

static int handle_commit(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	_cleanup_(vcs_release) struct vcs vcs = {.git.directory = -1};
	int r = vcs_begin(&vcs, call, request, err);
	return r < 0 ? r : write_commit(&vcs, vcs.in.ref, out, err);
}

/* Refs that there are not are left out, unless there is none. */
static int handle_commits(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	_cleanup_(vcs_release) struct vcs vcs = {.git.directory = -1};
	size_t found = 0, mark;
	int r = vcs_begin(&vcs, call, request, err);
	for (size_t i = 0; !r && i < vcs.in.refs.count; i++) {
		size_t before = out->len;
		pb_begin(out, 1, &mark);
		r = write_commit(&vcs, vcs.in.refs.items[i], out, err);
		if (!r)
			r = rpc_too_large(pb_end(out, mark), err);
		found += r == 0;
		if (r == -ENOENT || r == -EINVAL) {
			buffer_truncate(out, before);
			r = 0;
		}
	}
	if (!r && vcs.in.refs.count && !found)
		return error_set(err, -ENOENT, "failed to fetch any commits");
	return r;
}

static int handle_github(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	call->code = GRPC_UNIMPLEMENTED;
	return error_set(err, -EINVAL, "GitHub integration is not configured");
}

#define VCS "/vcs.v1.VCSService/"
const struct rpc_method rpc_pyroscope_vcs[] = {
	{VCS "GithubApp", PERMIT_READ, &pyroscope_empty, &pyroscope_empty, handle_github, 0},
	{VCS "GithubLogin", PERMIT_READ, &pyroscope_empty, &pyroscope_empty, handle_github, 0},
	{VCS "GithubRefresh", PERMIT_READ, &pyroscope_empty, &pyroscope_empty, handle_github, 0},
	{VCS "GetFile", PERMIT_READ, &file_request, &file_answer, handle_file, RPC_SLOW | RPC_READ_ONLY},
	{VCS "GetCommit", PERMIT_READ, &commit_request, &commit, handle_commit, RPC_SLOW | RPC_READ_ONLY},
	{VCS "GetCommits", PERMIT_READ, &commits_request, &commits_answer, handle_commits, RPC_SLOW | RPC_READ_ONLY},
	{0},
};
