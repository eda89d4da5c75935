/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a caller is. In this order, the first that the request brings decides:
 *
 *   a token          of the file, by its hash; or the one token of the configuration
 *   a JSON Web Token if the file names an issuer, and it is none of the above
 *   a certificate    that TLS has checked, by one of its names
 *
 * A wrong token does not fall back on the certificate: who sends one means it.
 *
 * Keeping up. A thread looks at the file once a second. One that is another by identity, size or time is read as a whole, and
 * is in use from then on if nothing is wrong with it; otherwise the log says so, once for each version of the file, and what
 * was there before stays. So a token that is taken out is refused a second later, and a mistake in the file locks nobody out.
 * What is in use is a set with a count of its users: event loops take it for the time of a look-up, without waiting for the
 * reader.
 *
 * Keys of JSON Web Tokens are in a file, which is looked at likewise, or behind a URL. They are fetched at the start, every
 * hour, and when a token names a key that is not among them, but then twice a minute at most: anybody can name keys. Nobody
 * waits for it: the token is refused, and works as soon as its key is there.
 */
#include "server/access/callers.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time.h"

#define LOOK_INTERVAL_NS  NS_PER_S
#define FETCH_INTERVAL_NS (3600 * NS_PER_S)
#define FETCH_AGAIN_NS	  (30 * NS_PER_S)
#define FETCH_TIMEOUT_NS  (10 * NS_PER_S)
#define TOKEN_NAME	  "token" /* of the one of the configuration */

struct stamp {
	dev_t device;
	ino_t inode;
	off_t size;
	int64_t modified_ns, changed_ns;
};

struct token_set {
	atomic_uint users;
	struct tokens *tokens;
	struct jwks *keys; /* NULL = none yet */
};

struct callers {
	struct callers_options options;
	char *tokens_file;
	uint8_t token[TOKEN_HASH_BYTES]; /* hash of the one of the configuration */
	bool has_token;
	char *keys_file; /* the thread's: that was read last, or tried; NULL = none */
	struct attempts *attempts;
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct token_set *set; /* lock; NULL = there is no file */
	bool stopping;	       /* lock */
	atomic_bool cancel;    /* a fetch */
	atomic_bool key_missed;
	/* the thread's */
	struct stamp tokens_stamp, keys_stamp;
	int64_t fetched_ns; /* when it was tried last; 0 = never */
	bool fetch_failed;
	atomic_uint_least64_t results[CALLERS_RESULTS], logins, reloads, reload_failures;
	atomic_bool is_current;
};

const char *const callers_result_names[CALLERS_RESULTS] = {
	[CALLERS_FOUND] = "ok",		[CALLERS_ANONYMOUS] = "no_token", [CALLERS_UNKNOWN] = "wrong_token",
	[CALLERS_EXPIRED] = "expired",	[CALLERS_WAIT] = "delayed",	  [CALLERS_NOT_PERMITTED] = "role",
	[CALLERS_NO_TENANT] = "tenant",
};

/* ---- sets ---- */

static struct token_set *token_set_free(struct token_set *set)
{
	if (set && atomic_fetch_sub(&set->users, 1) == 1) {
		tokens_free(set->tokens);
		jwks_free(set->keys);
		mem_free(set);
	}
	return NULL;
}
DEFINE_CLEANUP_POINTER(token_set_free, struct token_set);

static struct token_set *take_set(struct callers *callers)
{
	THREAD_LOCK_SCOPE(&callers->lock);
	if (callers->set)
		atomic_fetch_add(&callers->set->users, 1);
	return callers->set;
}

static void put_set(struct callers *callers, struct token_set *set)
{
	pthread_mutex_lock(&callers->lock);
	struct token_set *before = callers->set;
	callers->set = set;
	pthread_mutex_unlock(&callers->lock);
	token_set_free(before);
}

/* tokens and keys become the set's, also on failure. */
static struct token_set *make_set(struct tokens *tokens, struct jwks *keys)
{
	struct token_set *set = mem_zalloc(sizeof(*set));
	if (!set) {
		tokens_free(tokens);
		jwks_free(keys);
		return NULL;
	}
	atomic_init(&set->users, 1);
	set->tokens = tokens;
	set->keys = keys;
	return set;
}

/* ---- files ---- */

static struct stamp stamp_of(const char *path)
{
	struct stat info;
	struct stamp stamp = {0};
	if (path && io_stat(path, &info) == 0)
		stamp = (struct stamp){.device = info.st_dev,
				       .inode = info.st_ino,
				       .size = info.st_size,
				       .modified_ns = time_of_timespec(info.st_mtim),
				       .changed_ns = time_of_timespec(info.st_ctim)};
	return stamp;
}

static bool stamp_equal(const struct stamp *a, const struct stamp *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size && a->modified_ns == b->modified_ns &&
	       a->changed_ns == b->changed_ns;
}

/* A token for a tenant would be good for nothing on a server without tenants, or, read otherwise, for everything. */
static int check_tenants(const struct callers *callers, const struct tokens *tokens, struct error *err)
{
	if (callers->options.tenants)
		return 0;
	for (size_t i = 0; i < tokens->count; i++)
		if (!token_tenants_have(&tokens->items[i].tenants, NULL))
			return error_set(err, -EINVAL,
					 "%s: '%s' is for a tenant, but this server has none: set 'tenants' in its "
					 "configuration",
					 callers->tokens_file, tokens->items[i].name);
	return 0;
}

static bool is_same_url(const struct tokens *a, const struct tokens *b)
{
	return a && a->oidc && b->oidc && a->oidc->jwks_url && b->oidc->jwks_url &&
	       strcmp(a->oidc->jwks_url, b->oidc->jwks_url) == 0;
}

static int load_keys(struct callers *callers, const struct tokens *tokens, struct jwks **ret, struct error *err)
{
	const struct token_set *now = callers->set; /* this thread alone changes it */
	const struct oidc_settings *oidc = tokens->oidc;
	mem_free(callers->keys_file);
	callers->keys_file = oidc && oidc->jwks_file ? mem_strdup(oidc->jwks_file) : NULL;
	callers->keys_stamp = stamp_of(callers->keys_file);
	if (oidc && oidc->jwks_file) {
		_cleanup_(buffer_release) struct buffer json = {0};
		int r = io_read_file(oidc->jwks_file, JWKS_BYTES_MAX, &json, err);
		if (r == 0)
			r = jwks_read(buffer_bytes(&json), ret, err);
		return r < 0 ? error_prefix(err, r, "%s", oidc->jwks_file) : 0;
	}
	if (now && is_same_url(now->tokens, tokens))
		*ret = jwks_share(now->keys);
	else
		callers->fetched_ns = 0;
	return 0;
}

static int load(struct callers *callers, struct error *err)
{
	_cleanup_(tokens_freep) struct tokens *tokens = NULL;
	struct jwks *keys = NULL;
	callers->tokens_stamp = stamp_of(callers->tokens_file); /* before it is read: a change in between is seen */
	int r = tokens_load(callers->tokens_file, &tokens, err);
	if (r == 0)
		r = check_tenants(callers, tokens, err);
	if (r == 0)
		r = load_keys(callers, tokens, &keys, err);
	if (r < 0)
		return r;
	struct token_set *set = make_set(TAKE(tokens), keys);
	if (!set)
		return error_nomem(err);
	put_set(callers, set);
	atomic_store(&callers->is_current, true);
	return 0;
}

static void reload(struct callers *callers)
{
	struct error err = {0};
	char text[200];
	if (load(callers, &err) < 0) {
		atomic_fetch_add(&callers->reload_failures, 1);
		atomic_store(&callers->is_current, false);
		log_error("tokens: %s; those of before stay in use", err.message);
		snprintf(text, sizeof(text), "refused: %.180s", err.message);
	} else {
		atomic_fetch_add(&callers->reloads, 1);
		log_info("tokens: %s was read again: %zu tokens", callers->tokens_file, callers->set->tokens->count);
		snprintf(text, sizeof(text), "read again: %zu tokens", callers->set->tokens->count);
	}
	audit_add(callers->options.audit, &(struct audit_entry){.event = AUDIT_TOKENS, .reason = text});
}

static bool files_changed(struct callers *callers)
{
	struct stamp tokens = stamp_of(callers->tokens_file);
	struct stamp keys = stamp_of(callers->keys_file);
	return !stamp_equal(&tokens, &callers->tokens_stamp) || !stamp_equal(&keys, &callers->keys_stamp);
}

/* ---- keys behind a URL ---- */

/* "https://host:1/path?x" to what net_client takes: the first part as URL, the rest as path. */
static int fetch(struct callers *callers, const struct oidc_settings *oidc, struct buffer *out, struct error *err)
{
	_cleanup_(net_tls_freep) struct net_tls *tls = NULL;
	_cleanup_(net_client_freep) struct net_client *client = NULL;
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	const struct net_tls_options tls_options = {.ca_file = oidc->ca_file};
	char url[512];
	const char *authority = strstr(oidc->jwks_url, "://") + 3, *path = authority + strcspn(authority, "/?#");
	size_t len = (size_t)(path - oidc->jwks_url);
	if (len >= sizeof(url))
		return error_set(err, -EINVAL, "the URL is too long");
	memcpy(url, oidc->jwks_url, len);
	url[len] = '\0';
	struct net_client_options options = {
		.url = url, .timeout_ns = FETCH_TIMEOUT_NS, .response_max = JWKS_BYTES_MAX, .cancel = &callers->cancel};
	int r = oidc->ca_file ? net_tls_new_client(&tls_options, &tls, err) : 0;
	options.tls = tls;
	if (r == 0)
		r = net_client_new(&options, &client, err);
	if (r == 0)
		r = net_client_request(client, "GET", *path == '/' ? path : "/", NULL, (struct bytes){0}, NET_PLAIN, &response,
				       err);
	if (r == 0 && response.status != 200)
		r = error_set(err, -EBADMSG, "status %d", response.status);
	return r < 0 ? r : buffer_append(out, response.body.data, response.body.len);
}

static void fetch_keys(struct callers *callers)
{
	_cleanup_(buffer_release) struct buffer json = {.max = JWKS_BYTES_MAX};
	struct jwks *keys = NULL;
	struct error err = {0};
	struct tokens *tokens = callers->set->tokens;
	int r = fetch(callers, tokens->oidc, &json, &err);
	if (r == 0)
		r = jwks_read(buffer_bytes(&json), &keys, &err);
	if (r < 0) {
		if (!callers->fetch_failed && !atomic_load(&callers->cancel))
			log_warn("tokens: cannot get the keys of %s: %s", tokens->oidc->jwks_url, err.message);
		callers->fetch_failed = true;
		return;
	}
	callers->fetch_failed = false;
	/* Who looks something up holds the set, not the lock: a new one takes its place. */
	struct token_set *set = make_set(tokens_share(tokens), keys);
	if (set)
		put_set(callers, set);
}

static void look_at_keys(struct callers *callers)
{
	const struct oidc_settings *oidc = callers->set->tokens->oidc;
	int64_t now_ns = time_monotonic_ns(), since_ns = now_ns - callers->fetched_ns;
	bool again = atomic_load(&callers->key_missed) || callers->fetch_failed;
	if (!oidc || !oidc->jwks_url || (callers->fetched_ns && since_ns < (again ? FETCH_AGAIN_NS : FETCH_INTERVAL_NS)))
		return;
	callers->fetched_ns = now_ns;
	atomic_store(&callers->key_missed, false);
	fetch_keys(callers);
}

/* ---- the thread ---- */

static void *run(void *context)
{
	struct callers *callers = context;
	bool stopping = false;
	while (!stopping) {
		if (files_changed(callers))
			reload(callers);
		look_at_keys(callers);
		pthread_mutex_lock(&callers->lock);
		int64_t until_ns = time_monotonic_ns() + LOOK_INTERVAL_NS;
		while (!callers->stopping && time_monotonic_ns() < until_ns)
			thread_wait_until(&callers->wake, &callers->lock, until_ns);
		stopping = callers->stopping;
		pthread_mutex_unlock(&callers->lock);
	}
	return NULL;
}

int callers_open(const struct callers_options *options, struct callers **ret, struct error *err)
{
	struct callers *callers = mem_zalloc(sizeof(*callers));
	if (!callers)
		return error_nomem(err);
	callers->options = *options;
	pthread_mutex_init(&callers->lock, NULL);
	thread_condition_init(&callers->wake);
	callers->has_token = options->token != NULL;
	if (options->token)
		token_hash(bytes_of_string(options->token), callers->token);
	callers->tokens_file = options->tokens_file ? mem_strdup(options->tokens_file) : NULL;
	callers->attempts = attempts_new();
	bool whole = callers->attempts && (callers->tokens_file || !options->tokens_file);
	int r = whole ? 0 : error_nomem(err);
	if (r == 0 && callers->tokens_file)
		r = load(callers, err);
	if (r == 0 && callers->tokens_file)
		r = thread_start(&callers->thread, "wick-tokens", run, callers, err);
	callers->running = r == 0 && callers->tokens_file;
	if (r < 0)
		callers_close(callers);
	else
		*ret = callers;
	return r;
}

struct callers *callers_close(struct callers *callers)
{
	if (!callers)
		return NULL;
	pthread_mutex_lock(&callers->lock);
	callers->stopping = true;
	pthread_cond_signal(&callers->wake);
	pthread_mutex_unlock(&callers->lock);
	atomic_store(&callers->cancel, true);
	if (callers->running)
		pthread_join(callers->thread, NULL);
	token_set_free(callers->set);
	attempts_free(callers->attempts);
	pthread_mutex_destroy(&callers->lock);
	pthread_cond_destroy(&callers->wake);
	mem_free(callers->tokens_file);
	mem_free(callers->keys_file);
	return mem_free(callers);
}

/* ---- finding out ---- */

static enum callers_result use_entry(const struct token_entry *entry, const char *kind, struct identity *ret)
{
	snprintf(ret->name, sizeof(ret->name), "%s", entry->name);
	ret->kind = kind;
	ret->roles = entry->roles;
	ret->tenants = entry->tenants;
	if (!entry->expires_ns || time_now_ns() < entry->expires_ns)
		return CALLERS_FOUND;
	snprintf(ret->reason, sizeof(ret->reason), "the %s '%s' has expired", kind, entry->name);
	return CALLERS_EXPIRED;
}

static void use_token(struct identity *ret)
{
	snprintf(ret->name, sizeof(ret->name), TOKEN_NAME);
	ret->kind = "token";
	ret->roles = ROLE_ADMIN;
	ret->tenants = (struct token_tenants){.all = true};
}

static enum callers_result use_jwt(struct callers *callers, const char *credential, struct identity *ret)
{
	const struct oidc_settings *oidc = ret->set->tokens->oidc;
	struct error err = {0};
	int r = jwt_check(credential, oidc, ret->set->keys, time_now_ns(), &ret->jwt, &err);
	if (r == -ENOKEY)
		atomic_store(&callers->key_missed, true);
	if (r < 0) {
		ret->is_guess = r != -ENOKEY;
		snprintf(ret->reason, sizeof(ret->reason), "%.150s", err.message);
		return r == -EKEYEXPIRED ? CALLERS_EXPIRED : CALLERS_UNKNOWN;
	}
	snprintf(ret->name, sizeof(ret->name), "%s", ret->jwt.name);
	ret->kind = "jwt";
	ret->roles = ret->jwt.roles;
	ret->tenants = oidc->tenants;
	if (ret->jwt.tenant_count || ret->jwt.all_tenants) {
		for (size_t i = 0; i < ret->jwt.tenant_count; i++)
			ret->jwt_tenants[i] = ret->jwt.tenants[i];
		ret->tenants = (struct token_tenants){ret->jwt_tenants, ret->jwt.tenant_count, ret->jwt.all_tenants};
	}
	return CALLERS_FOUND;
}

static enum callers_result find_credential(struct callers *callers, const char *credential,
					   const uint8_t hash[static TOKEN_HASH_BYTES], struct identity *ret)
{
	const struct token_entry *entry = ret->set ? tokens_find(ret->set->tokens, hash) : NULL;
	if (entry)
		return use_entry(entry, "token", ret);
	/* Hashes are of equal length, so that neither length nor contents show in the time. */
	if (callers->has_token && CRYPTO_memcmp(callers->token, hash, sizeof(callers->token)) == 0) {
		use_token(ret);
		return CALLERS_FOUND;
	}
	ret->is_guess = true;
	if (ret->set && ret->set->tokens->oidc && jwt_looks_like(credential))
		return use_jwt(callers, credential, ret);
	return CALLERS_UNKNOWN;
}

static enum callers_result identify_credential(struct callers *callers, const struct net_request *request,
					       const char *credential, struct identity *ret)
{
	uint8_t hash[TOKEN_HASH_BYTES];
	uint64_t peer = net_request_peer(request);
	int64_t now_ns = time_monotonic_ns();
	if (!*credential) /* no token at all, so no guess either */
		return CALLERS_UNKNOWN;
	token_hash(bytes_of_string(credential), hash);
	int64_t wait_ns = attempts_wait_ns(callers->attempts, peer, hash, now_ns);
	if (wait_ns > 0) {
		ret->wait_s = (unsigned)((wait_ns + NS_PER_S - 1) / NS_PER_S);
		snprintf(ret->reason, sizeof(ret->reason), "too many wrong tokens came from this address; try again in %u s",
			 ret->wait_s);
		return CALLERS_WAIT;
	}
	enum callers_result result = find_credential(callers, credential, hash, ret);
	if (result == CALLERS_UNKNOWN && ret->is_guess)
		attempts_failed(callers->attempts, peer, now_ns);
	else if (result == CALLERS_FOUND)
		ret->is_login = attempts_succeeded(callers->attempts, peer, hash, now_ns);
	return result;
}

static enum callers_result identify_certificate(struct callers *callers, const struct net_request *request,
						struct identity *ret)
{
	uint8_t hash[TOKEN_HASH_BYTES];
	const char *name;
	for (size_t i = 0; ret->set && (name = net_request_certificate_name(request, i)); i++) {
		const struct token_entry *entry = tokens_find_certificate(ret->set->tokens, name);
		if (!entry)
			continue;
		enum callers_result result = use_entry(entry, "certificate", ret);
		token_hash(bytes_of_string(name), hash);
		if (result == CALLERS_FOUND)
			ret->is_login =
				attempts_succeeded(callers->attempts, net_request_peer(request), hash, time_monotonic_ns());
		return result;
	}
	return CALLERS_ANONYMOUS;
}

enum callers_result callers_identify(struct callers *callers, const struct net_request *request, const char *credential,
				     struct identity *ret)
{
	memset(ret, 0, offsetof(struct identity, jwt));
	ret->set = take_set(callers);
	enum callers_result result = credential ? identify_credential(callers, request, credential, ret)
						: identify_certificate(callers, request, ret);
	if (ret->is_login)
		atomic_fetch_add(&callers->logins, 1);
	return result;
}

void identity_release(struct identity *identity)
{
	identity->set = token_set_free(identity->set);
}

/* ---- counters ---- */

void callers_count(struct callers *callers, enum callers_result result)
{
	atomic_fetch_add(&callers->results[result], 1);
}

void callers_get_stats(struct callers *callers, struct callers_stats *ret)
{
	*ret = (struct callers_stats){.is_current = true};
	if (!callers)
		return;
	_cleanup_(token_set_freep) struct token_set *set = take_set(callers);
	for (size_t i = 0; i < CALLERS_RESULTS; i++)
		ret->results[i] = atomic_load(&callers->results[i]);
	ret->logins = atomic_load(&callers->logins);
	ret->tokens = (set ? set->tokens->count : 0) + callers->has_token;
	ret->keys = set ? jwks_count(set->keys) : 0;
	ret->reloads = atomic_load(&callers->reloads);
	ret->reload_failures = atomic_load(&callers->reload_failures);
	ret->is_current = !callers->tokens_file || atomic_load(&callers->is_current);
}
