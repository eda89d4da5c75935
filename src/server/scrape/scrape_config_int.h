/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the scraper: reading scrape_configs. Errors name the setting, the file and the line. */
#ifndef WICK_SERVER_SCRAPE_SCRAPE_CONFIG_INT_H
#define WICK_SERVER_SCRAPE_SCRAPE_CONFIG_INT_H

#include "server/scrape/scrape_http.h"

/* ---- scrape_config_http.c ---- */

/* Of a struct scrape_http. */
int scrape_read_basic_auth(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_authorization(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_oauth2(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_tls(struct yaml_reader *reader, const yaml_node_t *node, void *object);
void scrape_http_release(struct scrape_http *http);
/* The fields of a struct that has a struct scrape_http `http`. */
#define SCRAPE_HTTP_FIELDS(type)                                                                                               \
	YAML_FIELD(type, "basic_auth", CUSTOM, http, scrape_read_basic_auth),                                                  \
		YAML_FIELD(type, "authorization", CUSTOM, http, scrape_read_authorization),                                    \
		YAML_FIELD(type, "oauth2", CUSTOM, http, scrape_read_oauth2),                                                  \
		YAML_FIELD(type, "tls_config", CUSTOM, http, scrape_read_tls),                                                 \
		YAML_FIELD(type, "follow_redirects", NOT, http.no_redirects),                                                  \
		YAML_FIELD(type, "bearer_token", TEXT, http.credentials),                                                      \
		YAML_FIELD(type, "bearer_token_file", TEXT, http.credentials_file),                                            \
		YAML_FIELD(type, "proxy_url", TEXT, http.proxy_url), YAML_FIELD(type, "no_proxy", TEXT, http.no_proxy),        \
		YAML_FIELD(type, "proxy_from_environment", FLAG, http.proxy_from_environment)
int scrape_check_http(struct yaml_reader *reader, const yaml_node_t *node, const struct scrape_http *http);
/* http or https, and no user or password in it, which would be shown. */
int scrape_check_url(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char *url);

/* ---- scrape_config_discovery.c, scrape_config_cloud.c ---- */

#define SCRAPE_REFRESH_DEFAULT (60 * NS_PER_S)
#define SCRAPE_PORT_DEFAULT    80
#define SCRAPE_REFRESH_FIELD   YAML_FIELD(struct discovery_config, "refresh_interval", DURATION, refresh_ns)
#define SCRAPE_PORT_FIELD      YAML_FIELD(struct discovery_config, "port", COUNT, port, .least = 1, .most = UINT16_MAX)
/* A further discovery of the job. */
int scrape_add_discovery(struct yaml_reader *reader, const yaml_node_t *node, struct scrape_job *job, enum discovery_kind kind,
			 int64_t refresh_ns, struct discovery_config **ret);
/* The place of a value among `count` names. must: "must be a, b or c". */
int scrape_read_name(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char *const *names,
		     size_t count, const char *must);
/* An item of the list filters, `name` and `values`: of a struct discovery_config. */
int scrape_read_filter(struct yaml_reader *reader, const yaml_node_t *node, void *object);
/* Items of the lists: of a struct scrape_job. */
int scrape_read_static(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_file(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_http(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_dns(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_kubernetes(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_consul(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_docker(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_swarm(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_nomad(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_ec2(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_gce(struct yaml_reader *reader, const yaml_node_t *node, void *object);
int scrape_read_azure(struct yaml_reader *reader, const yaml_node_t *node, void *object);

#endif
