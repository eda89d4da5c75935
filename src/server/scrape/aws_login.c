/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who we are to AWS. Keys are looked for where AWS' own clients look, and in their order
 * (https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html):
 *
 *   access_key and secret_key of the configuration
 *   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, unless a profile is named
 *   AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE: service accounts of EKS, by STS
 *   a profile of the shared credentials file (AWS_SHARED_CREDENTIALS_FILE, ~/.aws/credentials)
 *   AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI: tasks of ECS, pods of EKS
 *   the role of the machine, by its metadata service (IMDSv2)
 *
 * With role_arn these are then exchanged for those of the role, by STS. What expires is renewed 5 minutes before it does. Keys
 * that roles of profiles, SSO or programs (credential_process) would give are not looked for.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/xml_tree.h"
#include "server/scrape/discovery_cloud.h"

#define EARLY_NS	(5 * 60 * NS_PER_S)
#define FILE_BYTES_MAX	(1 * MIB)
#define BODY_BYTES_MAX	(1 * MIB)
#define FORM_BYTES_MAX	(64 * KIB)
#define CONTAINER	"http://169.254.170.2"
#define FORM		"application/x-www-form-urlencoded; charset=utf-8"
#define TOKEN_BYTES_MAX (16 * KIB)

void aws_login_release(struct aws_login *login)
{
	mem_free(login->access_key);
	mem_free(login->secret_key);
	mem_free(login->session_token);
	*login = (struct aws_login){0};
}

/* 1 = taken. */
static int take_keys(struct aws_login *login, const char *access_key, const char *secret_key, const char *token,
		     const char *expires, struct error *err)
{
	int64_t expires_ns = 0;
	if (!access_key || !*access_key || !secret_key || !*secret_key)
		return error_set(err, -EBADMSG, "AWS credentials without an access key or a secret key");
	if (expires && *expires && time_parse(expires, time_now_ns(), &expires_ns, NULL) < 0)
		return error_set(err, -EBADMSG, "AWS credentials with a bad time of expiration");
	struct aws_login next = {mem_strdup(access_key), mem_strdup(secret_key), token && *token ? mem_strdup(token) : NULL,
				 expires_ns};
	if (!next.access_key || !next.secret_key || (token && *token && !next.session_token)) {
		aws_login_release(&next);
		return error_nomem(err);
	}
	aws_login_release(login);
	*login = next;
	return 1;
}

/* ---- requests ---- */

void aws_regional_url(const char *service, const char *region, char *out, size_t size)
{
	snprintf(out, size, "https://%s.%s.amazonaws.com%s/", service, region, text_starts_with(region, "cn-") ? ".cn" : "");
}

/* "host[:port]" of a URL, as the header Host has it. */
static void copy_host(const char *url, char *out, size_t size)
{
	const char *host = strstr(url, "://");
	bool tls = !strncasecmp(url, "https:", 6);
	host = host ? host + 3 : url;
	int len = (int)strcspn(host, "/?#");
	const char *port = tls ? ":443" : ":80";
	if (len > (int)strlen(port) && !strncmp(host + len - strlen(port), port, strlen(port)))
		len -= (int)strlen(port);
	snprintf(out, size, "%.*s", len, host);
}

int aws_post(struct discovery *discovery, const struct aws_login *login, const char *service, const char *region,
	     const char *url, struct bytes form, struct buffer *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer authorization = {.max = NET_CLIENT_HEADER_BYTES_MAX};
	char date[AWS_DATE_MAX], host[300];
	const char *token = login ? login->session_token : NULL, *path = strstr(url, "://");
	path = path ? path + 3 + strcspn(path + 3, "/?#") : "";
	aws_format_date(time_now_ns() / NS_PER_S, date);
	copy_host(url, host, sizeof(host));
	const struct aws_header headers[] = {
		{"content-type", FORM}, {"host", host}, {"x-amz-date", date}, {"x-amz-security-token", token}};
	const struct aws_request signing = {.method = "POST",
					    .path = *path == '/' ? path : "/",
					    .query = "",
					    .region = region,
					    .service = service,
					    .date = date,
					    .headers = headers,
					    .header_count = token ? 4 : 3,
					    .body = form};
	int r = 0;
	if (login) {
		const struct aws_keys keys = {login->access_key, login->secret_key};
		r = aws_sign(&keys, &signing, &authorization, err);
	}
	const char *text = r == 0 && login ? buffer_string(&authorization) : NULL;
	const struct scrape_header sent[] = {
		{"Authorization", text}, {"X-Amz-Date", login ? date : NULL}, {"X-Amz-Security-Token", token}};
	struct scrape_request request = {.url = url,
					 .method = "POST",
					 .accept = "text/xml",
					 .content_type = FORM,
					 .body = form,
					 .headers = sent,
					 .header_count = 3};
	return r < 0 ? r : discovery_request(discovery, &discovery->config->http, &request, DISCOVERY_BODY_MAX, ret, err);
}

/* The machine's, or its containers': with one header. */
static int metadata(struct discovery *discovery, const char *url, const char *method, const struct scrape_header *header,
		    struct buffer *ret, struct error *err)
{
	struct scrape_request request = {.url = url,
					 .method = method,
					 .accept = "*/*",
					 .headers = header,
					 .header_count = 1,
					 .timeout_ns = CLOUD_METADATA_NS};
	return discovery_request(discovery, &discovery_metadata_http, &request, BODY_BYTES_MAX, ret, err);
}

/* ---- files ---- */

static bool is_section(struct bytes line, const char *profile, bool prefixed)
{
	char name[160];
	if (line.len < 2 || line.data[line.len - 1] != ']' || line.len - 2 >= sizeof(name))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)line.len - 2, (const char *)line.data + 1);
	const char *start = name + strspn(name, " ");
	if (prefixed && text_starts_with(start, "profile "))
		start += strlen("profile ");
	char *end = name + strlen(name);
	while (end > start && end[-1] == ' ')
		*--end = '\0';
	return !strcmp(start, profile);
}

static struct bytes trim(struct bytes text)
{
	while (text.len > 0 && (*text.data == ' ' || *text.data == '\t'))
		text = bytes_skip(text, 1);
	while (text.len > 0 && strchr(" \t\r", text.data[text.len - 1]))
		text.len--;
	return text;
}

/* The values of these names in a section of a file such as ~/.aws/credentials; 0 if there is no such file. */
static int read_profile(const char *variable, const char *name, const char *profile, const char *const *names, char **values,
			struct error *err)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	char path[4096];
	const char *given = discovery_environment(variable), *home = discovery_environment("HOME");
	snprintf(path, sizeof(path), "%s%s%s", given ? given : home ? home : "", given ? "" : "/.aws/", given ? "" : name);
	if (!given && !home)
		return 0;
	int r = io_read_file(path, FILE_BYTES_MAX, &file, err);
	if (r == -ENOENT || (r < 0 && !given))
		return 0;
	struct bytes rest = buffer_bytes(&file);
	bool inside = false;
	while (r == 0 && rest.len > 0) {
		struct bytes line = trim(bytes_take_line(&rest));
		const uint8_t *equals = line.len ? memchr(line.data, '=', line.len) : NULL;
		if (line.len && *line.data == '[')
			inside = is_section(line, profile, !strcmp(name, "config"));
		if (!inside || !equals || *line.data == '#' || *line.data == ';')
			continue;
		struct bytes key = trim((struct bytes){line.data, (size_t)(equals - line.data)});
		struct bytes value = trim(bytes_skip(line, (size_t)(equals + 1 - line.data)));
		for (size_t i = 0; names[i]; i++)
			if (bytes_equal_string(key, names[i]) && !values[i]) {
				values[i] = mem_strndup((const char *)value.data, value.len);
				r = values[i] ? 0 : error_nomem(err);
			}
	}
	return r < 0 ? r : 1;
}

static const char *profile_name(const struct ec2_config *config)
{
	const char *profile = config->profile ? config->profile : discovery_environment("AWS_PROFILE");
	return profile ? profile : "default";
}

static int from_profile(struct discovery *discovery, struct error *err)
{
	static const char *const names[] = {"aws_access_key_id", "aws_secret_access_key", "aws_session_token", NULL};
	const struct ec2_config *config = &discovery->config->ec2;
	char *values[3] = {NULL};
	int r = read_profile("AWS_SHARED_CREDENTIALS_FILE", "credentials", profile_name(config), names, values, err);
	if (r >= 0)
		r = values[0] ? take_keys(&discovery->cloud->aws, values[0], values[1], values[2], NULL, err) : 0;
	for (size_t i = 0; i < 3; i++)
		mem_free(values[i]);
	if (r == 0 && config->profile)
		return error_set(err, -ENOENT, "the AWS profile %.60s has no keys", config->profile);
	return r;
}

/* ---- the machine and its containers ---- */

/* {"AccessKeyId": ..., "SecretAccessKey": ..., "Token": ..., "Expiration": ...} */
static int take_json(struct aws_login *login, struct bytes body, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	int r = json_tree_read(body, 0, &tree, NULL);
	const struct json_node *root = r == 0 ? json_tree_root(tree) : NULL;
	return take_keys(login, json_node_text(json_node_get(root, "AccessKeyId")),
			 json_node_text(json_node_get(root, "SecretAccessKey")), json_node_text(json_node_get(root, "Token")),
			 json_node_text(json_node_get(root, "Expiration")), err);
}

static int from_container(struct discovery *discovery, struct error *err)
{
	_cleanup_(buffer_release) struct buffer body = {0}, file = {0};
	const char *relative = discovery_environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = discovery_environment("AWS_CONTAINER_CREDENTIALS_FULL_URI"), *token;
	char url[2048];
	if (!relative && !full)
		return 0;
	snprintf(url, sizeof(url), "%s%s", relative ? CONTAINER : full, relative ? relative : "");
	int r = scrape_read_secret(discovery_environment("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
				   discovery_environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"), &file, &token, err);
	if (r < 0)
		return r;
	const struct scrape_header header = {"Authorization", *token ? token : NULL};
	r = metadata(discovery, url, NULL, &header, &body, err);
	return r < 0 ? r : take_json(&discovery->cloud->aws, buffer_bytes(&body), err);
}

static int metadata_path(struct discovery *discovery, const char *path, const char *method, const struct scrape_header *header,
			 struct buffer *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer url = {.max = SCRAPE_URL_BYTES_MAX};
	const char *given = discovery_environment("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	scrape_append_base(&url, given ? given : "http://" CLOUD_METADATA_HOST);
	buffer_append_string(&url, path);
	const char *text = buffer_string(&url);
	return text ? metadata(discovery, text, method, header, ret, err)
		    : error_set(err, -E2BIG, "the address of the metadata service is too long");
}

/* With a session's token, as version 2 wants it. */
static int get_metadata(struct discovery *discovery, const char *token, const char *path, struct buffer *ret, struct error *err)
{
	const struct scrape_header header = {"X-aws-ec2-metadata-token", token};
	return metadata_path(discovery, path, NULL, &header, ret, err);
}

static int start_metadata(struct discovery *discovery, struct buffer *token, struct error *err)
{
	const struct scrape_header header = {"X-aws-ec2-metadata-token-ttl-seconds", "300"};
	int r = metadata_path(discovery, "/latest/api/token", "PUT", &header, token, err);
	return r < 0 ? r : buffer_string(token) ? 0 : error_nomem(err);
}

static int from_machine(struct discovery *discovery, struct error *err)
{
	static const char roles[] = "/latest/meta-data/iam/security-credentials/";
	_cleanup_(buffer_release) struct buffer token = {0}, role = {0}, body = {0};
	const char *disabled = discovery_environment("AWS_EC2_METADATA_DISABLED");
	char path[256];
	if (disabled && !strcasecmp(disabled, "true"))
		return 0;
	int r = start_metadata(discovery, &token, err);
	if (r == 0)
		r = get_metadata(discovery, (const char *)token.data, roles, &role, err);
	if (r < 0)
		return error_prefix(err, r, "no AWS credentials were found elsewhere");
	struct bytes rest = buffer_bytes(&role);
	struct bytes name = rest.len ? trim(bytes_take_line(&rest)) : rest;
	snprintf(path, sizeof(path), "%s%.*s", roles, name.len > 128 ? 128 : (int)name.len, (const char *)name.data);
	r = name.len ? get_metadata(discovery, (const char *)token.data, path, &body, err)
		     : error_set(err, -ENOENT, "the machine has no IAM role");
	return r < 0 ? r : take_json(&discovery->cloud->aws, buffer_bytes(&body), err);
}

/* ---- STS ---- */

static int post_sts(struct discovery *discovery, const struct aws_login *by, struct buffer *form, const char *result,
		    struct error *err)
{
	struct discovery_cloud *cloud = discovery->cloud;
	_cleanup_(buffer_release) struct buffer body = {0};
	_cleanup_(xml_tree_freep) struct xml_tree *tree = NULL;
	const char *given = discovery_environment("AWS_ENDPOINT_URL_STS");
	char url[300];
	aws_regional_url("sts", cloud->region, url, sizeof(url));
	if (buffer_status(form) < 0)
		return error_set_errno(err, buffer_status(form), "cannot create the request to STS");
	int r = aws_post(discovery, by, "sts", cloud->region, given ? given : url, buffer_bytes(form), &body, err);
	if (r == 0)
		r = xml_tree_read(buffer_bytes(&body), BODY_BYTES_MAX * 8, &tree, err);
	if (r < 0)
		return r;
	const struct xml_node *keys = xml_node_get(xml_node_get(xml_tree_root(tree), result), "Credentials");
	return take_keys(&cloud->aws, xml_node_text(keys, "AccessKeyId"), xml_node_text(keys, "SecretAccessKey"),
			 xml_node_text(keys, "SessionToken"), xml_node_text(keys, "Expiration"), err);
}

static void begin_form(struct buffer *form, const char *action, const char *role)
{
	scrape_append_pair(form, "Action", action);
	scrape_append_pair(form, "Version", "2011-06-15");
	scrape_append_pair(form, "RoleArn", role);
}

static int from_web_identity(struct discovery *discovery, struct error *err)
{
	_cleanup_(buffer_release) struct buffer file = {0}, form = {.max = FORM_BYTES_MAX};
	const char *path = discovery_environment("AWS_WEB_IDENTITY_TOKEN_FILE"), *role = discovery_environment("AWS_ROLE_ARN");
	const char *session = discovery_environment("AWS_ROLE_SESSION_NAME"), *token;
	if (!path || !role)
		return 0;
	int r = scrape_read_secret(NULL, path, &file, &token, err);
	if (r < 0)
		return r;
	begin_form(&form, "AssumeRoleWithWebIdentity", role);
	scrape_append_pair(&form, "RoleSessionName", session ? session : "wick");
	scrape_append_pair(&form, "WebIdentityToken", token);
	return post_sts(discovery, NULL, &form, "AssumeRoleWithWebIdentityResult", err);
}

static int assume_role(struct discovery *discovery, struct error *err)
{
	_cleanup_(buffer_release) struct buffer form = {.max = FORM_BYTES_MAX};
	const struct ec2_config *config = &discovery->config->ec2;
	begin_form(&form, "AssumeRole", config->role_arn);
	scrape_append_pair(&form, "RoleSessionName", "wick");
	scrape_append_pair(&form, "DurationSeconds", "900");
	if (config->external_id)
		scrape_append_pair(&form, "ExternalId", config->external_id);
	struct aws_login by = discovery->cloud->aws;
	discovery->cloud->aws = (struct aws_login){0};
	int r = post_sts(discovery, &by, &form, "AssumeRoleResult", err);
	aws_login_release(&by);
	return r;
}

/* ---- the whole ---- */

static int find_keys(struct discovery *discovery, struct error *err)
{
	const struct ec2_config *config = &discovery->config->ec2;
	const char *access_key = discovery_environment("AWS_ACCESS_KEY_ID"),
		   *secret_key = discovery_environment("AWS_SECRET_ACCESS_KEY");
	struct aws_login *login = &discovery->cloud->aws;
	if (config->access_key)
		return take_keys(login, config->access_key, config->secret_key, NULL, NULL, err);
	if (!config->profile && access_key && secret_key)
		return take_keys(login, access_key, secret_key, discovery_environment("AWS_SESSION_TOKEN"), NULL, err);
	int r = config->profile ? 0 : from_web_identity(discovery, err);
	if (r == 0)
		r = from_profile(discovery, err);
	if (r == 0)
		r = from_container(discovery, err);
	if (r == 0)
		r = from_machine(discovery, err);
	return r != 0 ? r : error_set(err, -ENOENT, "no AWS credentials were found");
}

int aws_log_in(struct discovery *discovery, struct error *err)
{
	struct aws_login *login = &discovery->cloud->aws;
	/* Those without an end are read again, as their file may have changed. */
	if (login->access_key && login->expires_ns - EARLY_NS > time_now_ns())
		return 0;
	aws_login_release(login);
	int r = find_keys(discovery, err);
	if (r > 0 && discovery->config->ec2.role_arn)
		r = assume_role(discovery, err);
	return r < 0 ? r : 0;
}

static int region_of_machine(struct discovery *discovery, struct error *err)
{
	struct discovery_cloud *cloud = discovery->cloud;
	_cleanup_(buffer_release) struct buffer token = {0}, body = {0};
	int r = start_metadata(discovery, &token, err);
	if (r == 0)
		r = get_metadata(discovery, (const char *)token.data, "/latest/meta-data/placement/region", &body, err);
	if (r < 0)
		return error_prefix(err, r, "no AWS region is configured");
	struct bytes text = trim(buffer_bytes(&body));
	snprintf(cloud->region, sizeof(cloud->region), "%.*s", text.len < 63 ? (int)text.len : 63, (const char *)text.data);
	return 0;
}

int aws_find_region(struct discovery *discovery, struct error *err)
{
	struct discovery_cloud *cloud = discovery->cloud;
	static const char *const names[] = {"region", NULL};
	const struct ec2_config *config = &discovery->config->ec2;
	const char *region = config->region;
	char *value = NULL;
	int r = 0;
	if (cloud->region[0])
		return 0;
	if (!region)
		region = discovery_environment("AWS_REGION");
	if (!region)
		region = discovery_environment("AWS_DEFAULT_REGION");
	if (!region)
		r = read_profile("AWS_CONFIG_FILE", "config", profile_name(config), names, &value, err);
	if (r >= 0 && (region || value))
		snprintf(cloud->region, sizeof(cloud->region), "%.63s", region ? region : value);
	else if (r >= 0)
		r = region_of_machine(discovery, err);
	mem_free(value);
	for (const char *at = cloud->region; *at && r >= 0; at++)
		if (!text_is_digit((uint8_t)*at) && (*at < 'a' || *at > 'z') && *at != '-')
			r = error_set(err, -EINVAL, "the AWS region is not a name such as eu-west-1");
	if (r < 0)
		cloud->region[0] = '\0';
	return r < 0 ? r : 0;
}
