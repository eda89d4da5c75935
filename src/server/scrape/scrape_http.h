/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the scraper: requests to targets and services, and the tokens that they need. */
#ifndef WICK_SERVER_SCRAPE_SCRAPE_HTTP_H
#define WICK_SERVER_SCRAPE_SCRAPE_HTTP_H

#include "base/buffer.h"
#include "server/scrape/scrape.h"

#define SCRAPE_URL_BYTES_MAX 8192
#define SCRAPE_ERROR_MAX     256
#define SCRAPE_GRANT_MAX     (256 * KIB) /* bytes of a token endpoint's response */

/* ---- scrape_http.c ---- */

struct scrape_header {
	const char *name, *value; /* value NULL = left out */
};
struct scrape_request {
	const char *url;
	const char *method; /* NULL = GET; only a GET follows redirects */
	const char *accept, *content_type;
	struct bytes body;
	const struct scrape_header *headers; /* for the URL's host only, as authorization is */
	size_t header_count;
	const char *unix_path;	 /* of the socket to connect to; NULL = the URL's host */
	const char *keep_header; /* of the response; NULL = none */
	int64_t timeout_ns;	 /* of the whole, redirects included */
	size_t body_max;
	const atomic_bool *cancel;
	struct net_budget *budget;
};
/* A connection that requests to the same host share. Begins as zeros. */
struct scrape_session {
	struct net_client *client;
	char origin[600];
	const struct scrape_http *http;
};
void scrape_session_release(struct scrape_session *session);
/* 0 when a response came, whatever its status; the body is as it was sent, response->encoding says how. URLs in messages are
 * without their query. */
int scrape_http_request(struct scrape_session *session, const struct scrape_http *http, const struct scrape_request *request,
			struct net_client_response *response, struct error *err);
/* Undoes Content-Encoding, if there is one: the body is in *ret, which may be the response's own. */
int scrape_http_body(struct net_client_response *response, size_t max, struct buffer *ret, struct error *err);
/* "status 404 Not Found: first line of what it says". */
int scrape_http_status(const struct net_client_response *response, struct bytes words, struct error *err);
/* A secret from the configuration, or from its file as it is now: they change. *ret lives as long as text and file do. */
int scrape_read_secret(const char *text, const char *path, struct buffer *file, const char **ret, struct error *err);
/* How much of a URL to show in messages: without its query, which may be secret, and no more than 200 bytes. */
int scrape_url_length(const char *url);
/* Appends a configured URL without the slashes at its end, for a path to follow. */
void scrape_append_base(struct buffer *url, const char *base);
/* Appends "name=value", encoded: to a URL or a path behind '?' or '&', to a form behind '&' unless it is the first. */
void scrape_append_parameter(struct buffer *url, const char *name, const char *value);
void scrape_append_pair(struct buffer *form, const char *name, const char *value);

/* ---- scrape_token.c ---- */

/* A token that is fetched when it is needed, by one of those who need it, and kept until it expires. */
struct scrape_token {
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool fetching;
	char *value;		      /* of the header Authorization: "Bearer abc"; NULL = none */
	int64_t renew_ns, expires_ns; /* monotonic */
	int64_t failed_ns;	      /* when to try again after a failure; 0 = the last try succeeded */
	int failure;
	int64_t refuse_ns; /* before that another refusal counts for nothing */
	char error[SCRAPE_ERROR_MAX];
};
/* What a fetch gives. */
struct scrape_grant {
	struct buffer value;
	int64_t lifetime_s; /* 0 = not known: until it is refused */
};
struct scrape_call { /* who waits for the token */
	const atomic_bool *cancel;
	int64_t deadline_ns;
};
typedef int scrape_token_function(void *context, const struct scrape_call *call, struct scrape_grant *ret, struct error *err);
void scrape_token_init(struct scrape_token *token);
void scrape_token_release(struct scrape_token *token);
/* *ret is the caller's to free. Waits no longer than the call may; a failure is remembered for 5 s, so that a thousand targets
 * do not ask a server that refuses. */
int scrape_token_get(struct scrape_token *token, scrape_token_function *fetch, void *context, const struct scrape_call *call,
		     char **ret, struct error *err);
/* The server refused this value: the next one to need a token fetches another. Once in 5 s, so that one target that refuses
 * every token does not make all others fetch one for each scrape. */
void scrape_token_refuse(struct scrape_token *token, const char *value);
/* Reads a response of RFC 6749, 5.1: access_token, token_type, expires_in. */
int scrape_read_grant(struct bytes body, struct scrape_grant *ret, struct error *err);
/* Sends a form to a token endpoint. */
int scrape_post_form(const struct scrape_call *call, const struct scrape_http *http, const char *url, struct bytes form,
		     struct net_client_response *response, struct error *err);
/* What the response of a token endpoint says: its grant, or the code of its error, and nothing else of the body. */
int scrape_take_grant(struct net_client_response *response, const char *url, struct scrape_grant *ret, struct error *err);

/* Client credentials of OAuth 2.0 (RFC 6749, 4.4). */
struct scrape_oauth2 {
	const char *client_id, *client_secret, *client_secret_file, *token_url;
	const char **scopes;
	size_t scope_count;
	struct relabel_label params[SCRAPE_PARAMS_MAX]; /* endpoint_params */
	size_t param_count;
	struct scrape_http http; /* of the token endpoint */
	struct scrape_token token;
	atomic_bool in_body;	 /* the server wants the secret in the body, not in the header */
	_Atomic uint64_t secret; /* hash of the one that the token was got with */
};
int scrape_oauth2_get(struct scrape_oauth2 *oauth2, const struct scrape_call *call, char **ret, struct error *err);

#endif
