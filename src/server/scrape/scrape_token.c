/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens, and how clients get them: client credentials of OAuth 2.0 (RFC 6749, 4.4).
 *
 *   POST token_url                                      200
 *   Authorization: Basic base64(id:secret)              {"access_token": "abc", "token_type": "bearer", "expires_in": 3600}
 *   grant_type=client_credentials&scope=a+b
 *
 * Servers must take the secret in the header and may take it in the body (2.3.1); some only take the latter, so what is refused
 * in the header with 400 or 401 is tried in the body, and the way that worked is remembered.
 *
 * One of those who need a token fetches it while the others wait: a job of a thousand targets asks once. It is renewed when a
 * tenth of its life is left, a minute at most, or when the target has refused it with 401, or when the secret's file has
 * changed.
 *
 * Of a failure the message holds the code of the error (5.2) and nothing else of the body: what a server writes there may
 * repeat the secret.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"
#include "codec/json_tree.h"
#include "server/scrape/scrape_http.h"

#define FAILURE_NS     (5 * NS_PER_S)
#define WAIT_NS	       (200 * NS_PER_MS)
#define EARLY_S_MAX    60
#define LIFETIME_S_MAX (24 * 3600)
#define FORM	       "application/x-www-form-urlencoded"
#define FETCH_NS       (30 * NS_PER_S)

/* ---- the token that is kept ---- */

void scrape_token_init(struct scrape_token *token)
{
	*token = (struct scrape_token){0};
	pthread_mutex_init(&token->lock, NULL);
	thread_condition_init(&token->done);
}

void scrape_token_release(struct scrape_token *token)
{
	mem_free(token->value);
	pthread_mutex_destroy(&token->lock);
	pthread_cond_destroy(&token->done);
}

static int wait_for_other(struct scrape_token *token, const struct scrape_call *call, struct error *err)
{
	while (token->fetching) {
		int64_t now_ns = time_monotonic_ns();
		if (cancel_requested(call->cancel))
			return error_set(err, -ECANCELED, "cancelled");
		if (now_ns >= call->deadline_ns)
			return error_set(err, -ETIMEDOUT, "timeout while waiting for a token");
		thread_wait_until(&token->done, &token->lock, now_ns + WAIT_NS);
	}
	return 0;
}

static void set_times(struct scrape_token *token, int64_t lifetime_s)
{
	token->renew_ns = token->expires_ns = INT64_MAX;
	if (lifetime_s <= 0)
		return;
	int64_t life_s = lifetime_s < LIFETIME_S_MAX ? lifetime_s : LIFETIME_S_MAX;
	int64_t early_ns = life_s * NS_PER_S / 10;
	if (early_ns > EARLY_S_MAX * NS_PER_S)
		early_ns = EARLY_S_MAX * NS_PER_S;
	token->expires_ns = time_monotonic_ns() + life_s * NS_PER_S;
	token->renew_ns = token->expires_ns - early_ns;
}

/* Under the lock. Who was cancelled has learnt nothing about the server. A token that could not be renewed is used to its end.
 */
static void note(struct scrape_token *token, int r, struct scrape_grant *grant, const struct error *err)
{
	const char *text = r == 0 ? buffer_string(&grant->value) : NULL;
	char *value = text ? mem_strdup(text) : NULL;
	token->fetching = false;
	pthread_cond_broadcast(&token->done);
	if (r == -ECANCELED)
		return;
	token->failure = r == 0 && !value ? -ENOMEM : r;
	token->failed_ns = token->failure < 0 ? time_monotonic_ns() + FAILURE_NS : 0;
	snprintf(token->error, sizeof(token->error), "%.255s", r < 0 ? err->message : "out of memory");
	if (!value)
		return;
	mem_free(token->value);
	token->value = value;
	set_times(token, grant->lifetime_s);
}

static int fetch_token(struct scrape_token *token, scrape_token_function *fetch, void *context, const struct scrape_call *call)
{
	struct scrape_grant grant = {.value.max = NET_CLIENT_HEADER_BYTES_MAX};
	struct error problem = {0};
	token->fetching = true;
	pthread_mutex_unlock(&token->lock);
	/* The waiting ones may have more time than who fetches. */
	struct scrape_call own = {call->cancel, time_monotonic_ns() + FETCH_NS};
	int r = fetch(context, &own, &grant, &problem);
	pthread_mutex_lock(&token->lock);
	note(token, r, &grant, &problem);
	buffer_release(&grant.value);
	return r;
}

int scrape_token_get(struct scrape_token *token, scrape_token_function *fetch, void *context, const struct scrape_call *call,
		     char **ret, struct error *err)
{
	THREAD_LOCK_SCOPE(&token->lock);
	int r = wait_for_other(token, call, err);
	if (r < 0)
		return r;
	int64_t now_ns = time_monotonic_ns();
	bool wanted = !token->value || token->renew_ns <= now_ns;
	if (wanted && token->failed_ns <= now_ns && fetch_token(token, fetch, context, call) == -ECANCELED)
		return error_set(err, -ECANCELED, "cancelled");
	if (token->value && token->expires_ns > now_ns) {
		*ret = mem_strdup(token->value);
		return *ret ? 0 : error_nomem(err);
	}
	return error_set(err, token->failure < 0 ? token->failure : -EAGAIN, "%s", token->error);
}

void scrape_token_refuse(struct scrape_token *token, const char *value)
{
	THREAD_LOCK_SCOPE(&token->lock);
	int64_t now_ns = time_monotonic_ns();
	if (!token->value || strcmp(token->value, value) || now_ns < token->refuse_ns)
		return;
	token->value = mem_free(token->value);
	token->refuse_ns = now_ns + FAILURE_NS;
}

/* ---- token endpoints ---- */

int scrape_read_grant(struct bytes body, struct scrape_grant *ret, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	int r = json_tree_read(body, 0, &tree, NULL);
	const struct json_node *root = r == 0 ? json_tree_root(tree) : NULL;
	const char *token = json_node_text(json_node_get(root, "access_token"));
	const char *type = json_node_text(json_node_get(root, "token_type"));
	if (!token || !*token)
		return error_set(err, -EBADMSG, "the response has no access_token");
	/* "bearer" means the scheme of that name, which some servers compare letter by letter. */
	if (!type || !*type || !strcasecmp(type, "bearer"))
		type = "Bearer";
	if (!json_node_integer(json_node_get(root, "expires_in"), &ret->lifetime_s))
		ret->lifetime_s = 0;
	r = buffer_printf(&ret->value, "%s %s", type, token);
	return r < 0 ? error_set(err, r, "the access_token is too long") : 0;
}

static int refused(const struct net_client_response *response, struct bytes body, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	char code[60] = "";
	int r = json_tree_read(body, 0, &tree, NULL);
	const char *text = r == 0 ? json_node_text(json_node_get(json_tree_root(tree), "error")) : NULL;
	size_t len = 0;
	for (; text && text[len] && len + 1 < sizeof(code); len++)
		code[len] = text[len] > ' ' && text[len] < 0x7f ? text[len] : '?';
	return error_set(err, -EACCES, "status %d%s%s", response->status, *code ? ": " : "", code);
}

int scrape_post_form(const struct scrape_call *call, const struct scrape_http *http, const char *url, struct bytes form,
		     struct net_client_response *response, struct error *err)
{
	_cleanup_(scrape_session_release) struct scrape_session session = {0};
	const struct scrape_request request = {.url = url,
					       .method = "POST",
					       .accept = "application/json",
					       .content_type = FORM,
					       .body = form,
					       .timeout_ns = call->deadline_ns - time_monotonic_ns(),
					       .body_max = SCRAPE_GRANT_MAX,
					       .cancel = call->cancel};
	return scrape_http_request(&session, http, &request, response, err);
}

int scrape_take_grant(struct net_client_response *response, const char *url, struct scrape_grant *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer body = {0};
	int r = scrape_http_body(response, SCRAPE_GRANT_MAX, &body, err);
	if (r == 0)
		r = response->status == 200 ? scrape_read_grant(buffer_bytes(&body), ret, err)
					    : refused(response, buffer_bytes(&body), err);
	return r < 0 ? error_prefix(err, r, "no token from %.*s", scrape_url_length(url), url) : 0;
}

/* ---- client credentials ---- */

static int make_body(const struct scrape_oauth2 *oauth2, const char *secret, bool in_body, struct buffer *ret)
{
	_cleanup_(buffer_release) struct buffer scope = {.max = ret->max};
	scrape_append_pair(ret, "grant_type", "client_credentials");
	for (size_t i = 0; i < oauth2->scope_count; i++)
		buffer_printf(&scope, "%s%s", i ? " " : "", oauth2->scopes[i]);
	if (oauth2->scope_count)
		scrape_append_pair(ret, "scope", buffer_string(&scope) ? (const char *)scope.data : "");
	for (size_t i = 0; i < oauth2->param_count; i++)
		scrape_append_pair(ret, oauth2->params[i].name, oauth2->params[i].value);
	if (in_body) {
		scrape_append_pair(ret, "client_id", oauth2->client_id);
		scrape_append_pair(ret, "client_secret", secret);
	}
	return buffer_status(ret);
}

/* RFC 6749, 2.3.1: both are encoded as in a form before they are joined. */
static int make_header(const struct scrape_oauth2 *oauth2, const char *secret, struct scrape_http *ret, struct buffer *user,
		       struct buffer *password)
{
	text_url_encode(user, bytes_of_string(oauth2->client_id));
	text_url_encode(password, bytes_of_string(secret));
	ret->user = buffer_string(user);
	ret->password = buffer_string(password);
	return ret->user && ret->password ? 0 : -ENOMEM;
}

static int ask(struct scrape_oauth2 *oauth2, const struct scrape_call *call, const char *secret, bool in_body,
	       struct net_client_response *response, struct error *err)
{
	_cleanup_(buffer_release) struct buffer body = {.max = 64 * KIB}, user = {.max = 64 * KIB},
						password = {.max = 64 * KIB};
	struct scrape_http http = oauth2->http;
	int r = make_body(oauth2, secret, in_body, &body);
	if (r == 0 && !in_body)
		r = make_header(oauth2, secret, &http, &user, &password);
	if (r < 0)
		return error_set_errno(err, r, "cannot create the request for a token");
	return scrape_post_form(call, &http, oauth2->token_url, buffer_bytes(&body), response, err);
}

static int fetch_credentials(void *context, const struct scrape_call *call, struct scrape_grant *ret, struct error *err)
{
	struct scrape_oauth2 *oauth2 = context;
	_cleanup_(buffer_release) struct buffer file = {0};
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	const char *secret;
	bool in_body = atomic_load(&oauth2->in_body);
	int r = scrape_read_secret(oauth2->client_secret, oauth2->client_secret_file, &file, &secret, err);
	if (r == 0)
		r = ask(oauth2, call, secret, in_body, &response, err);
	if (r == 0 && !in_body && (response.status == 400 || response.status == 401)) {
		in_body = true;
		r = ask(oauth2, call, secret, in_body, &response, err);
	}
	if (r == 0)
		r = scrape_take_grant(&response, oauth2->token_url, ret, err);
	if (r == 0) {
		atomic_store(&oauth2->in_body, in_body);
		atomic_store(&oauth2->secret, hash64(secret, strlen(secret)));
	}
	return r;
}

/* A token that was got with another secret than the file has now is not used any more. */
static void look_at_secret(struct scrape_oauth2 *oauth2)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	const char *secret;
	if (!oauth2->client_secret_file || scrape_read_secret(NULL, oauth2->client_secret_file, &file, &secret, NULL) < 0)
		return;
	uint64_t hash = hash64(secret, strlen(secret)), was = atomic_load(&oauth2->secret);
	if (hash == was)
		return;
	THREAD_LOCK_SCOPE(&oauth2->token.lock);
	if (oauth2->token.value && atomic_load(&oauth2->secret) == was)
		oauth2->token.value = mem_free(oauth2->token.value);
}

int scrape_oauth2_get(struct scrape_oauth2 *oauth2, const struct scrape_call *call, char **ret, struct error *err)
{
	look_at_secret(oauth2);
	return scrape_token_get(&oauth2->token, fetch_credentials, oauth2, call, ret, err);
}
