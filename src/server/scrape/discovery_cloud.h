/* SPDX-License-Identifier: Apache-2.0 */
/* Private to discovery: what clouds have in common, who we are to them, and what is remembered between two looks. */
#ifndef WICK_SERVER_SCRAPE_DISCOVERY_CLOUD_H
#define WICK_SERVER_SCRAPE_DISCOVERY_CLOUD_H

#include "codec/json_tree.h"
#include "server/scrape/aws_sign.h"
#include "server/scrape/scrape_int.h"

#define CLOUD_PAGES_MAX	    200
#define CLOUD_METADATA_HOST "169.254.169.254" /* of AWS, Google and Azure alike */
#define CLOUD_METADATA_NS   (5 * NS_PER_S)    /* it is on this machine, or it is not there */

/* Keys of AWS, and until when they hold. */
struct aws_login {
	char *access_key, *secret_key, *session_token; /* owned; NULL = none */
	int64_t expires_ns;			       /* realtime; 0 = never */
};
struct aws_zone {
	char name[40], id[40];
};

struct discovery_cloud {
	struct scrape_token token; /* GCE, Azure */
	struct aws_login aws;
	char region[64];
	struct aws_zone zones[32];
	size_t zone_count;
	bool has_zones;
	struct azure_nics *nics;
};
/* That of the discovery, which is made when there is none. */
struct discovery_cloud *discovery_cloud_get(struct discovery *discovery, struct error *err);
/* A request with the cloud's token, which fetch() gets; one that is refused is fetched again the next time. */
int discovery_cloud_json(struct discovery *discovery, scrape_token_function *fetch, void *context, const char *url,
			 struct json_tree **ret, struct error *err);
/* Makes the token of the next page what *token holds. Positive: there is a next page; "" = none. */
int discovery_keep_page(struct buffer *token, const char *next, struct error *err);
/* The metadata service of the machine that we run on: without a proxy and without credentials. */
extern const struct scrape_http discovery_metadata_http;
/* A token from the metadata service, by a GET with one header. */
int discovery_metadata_token(const struct scrape_call *call, const char *url, const struct scrape_header *header,
			     struct scrape_grant *ret, struct error *err);
/* A token for a form that is sent to a token endpoint. */
int discovery_form_token(const struct scrape_call *call, const struct scrape_http *http, const char *url, struct bytes form,
			 struct scrape_grant *ret, struct error *err);
const char *discovery_environment(const char *name); /* NULL when unset or empty */

/* ---- aws_login.c: of a discovery that has its cloud ---- */
void aws_login_release(struct aws_login *login);
/* The region: of the configuration, the environment, the shared configuration file, the machine. Remembered in the cloud. */
int aws_find_region(struct discovery *discovery, struct error *err);
/* Keys that hold, in the cloud's aws: what is there, or new ones. */
int aws_log_in(struct discovery *discovery, struct error *err);
/* "https://SERVICE.REGION.amazonaws.com/", or ...amazonaws.com.cn/ */
void aws_regional_url(const char *service, const char *region, char *out, size_t size);
/* A signed POST of a form; its response, XML, as text. */
int aws_post(struct discovery *discovery, const struct aws_login *login, const char *service, const char *region,
	     const char *url, struct bytes form, struct buffer *ret, struct error *err);

void azure_nics_free(struct azure_nics *nics); /* NULL allowed */

#endif
