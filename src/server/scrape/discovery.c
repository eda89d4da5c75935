/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery from what is written down: in the configuration, in files, and at an address that answers as a file would
 * (file_sd_configs, http_sd_configs):
 *
 *   [ { "targets": ["host:port", ...], "labels": { "name": "value", ... } }, ... ]
 *
 * Files are JSON or YAML, by their name. One that cannot be read or understood makes the whole look fail, and what was found
 * before stays: a file that is being written must not make half of the targets disappear.
 */
#include <errno.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/json_tree.h"
#include "codec/xml_tree.h"
#include "server/scrape/scrape_int.h"

#define FILE_BYTES_MAX	  (16 * MIB)
#define FILES_MAX	  1000
#define TREE_BYTES_MAX	  (128 * MIB)
#define MESSAGE_BYTES_MAX (4 * MIB) /* of what the response of an error becomes */

int discovery_static(struct discovery *discovery, struct discovered *found, struct error *err)
{
	const struct discovery_config *config = discovery->config;
	struct relabel_label labels[LIMIT_LABELS_PER_SERIES + 1]; /* [0] is __address__ */
	if (config->label_count)
		memcpy(labels + 1, config->labels, config->label_count * sizeof(*labels));
	int r = 0;
	for (size_t i = 0; i < config->item_count && r == 0; i++) {
		labels[0] = (struct relabel_label){"__address__", config->items[i]};
		r = discovered_add(found, labels, config->label_count + 1, err);
	}
	return r;
}

/* ---- files ---- */

static uint64_t stamp_file(const char *path, uint64_t hash)
{
	struct stat info;
	if (stat(path, &info) < 0)
		memset(&info, 0, sizeof(info));
	uint64_t parts[] = {(uint64_t)info.st_ino, (uint64_t)info.st_size, (uint64_t)info.st_mtim.tv_sec,
			    (uint64_t)info.st_mtim.tv_nsec};
	return hash64_seed(parts, sizeof(parts), hash64_seed(path, strlen(path), hash));
}

static int each_file(struct discovery *discovery, uint64_t *ret_stamp, struct discovered *found, struct error *err)
{
	const struct discovery_config *config = discovery->config;
	uint64_t stamp = 1;
	int r = 0;
	for (size_t i = 0; i < config->item_count && r == 0; i++) {
		glob_t paths;
		int code = glob(config->items[i], GLOB_NOCHECK, NULL, &paths);
		if (code)
			return error_set(err, code == GLOB_NOSPACE ? -ENOMEM : -EIO, "cannot expand %s", config->items[i]);
		bool pattern = strchr(config->items[i], '*');
		if (paths.gl_pathc > FILES_MAX)
			r = error_set(err, -E2BIG, "%s: more than %d files", config->items[i], FILES_MAX);
		for (size_t k = 0; k < paths.gl_pathc && r == 0; k++) {
			_cleanup_(buffer_release) struct buffer file = {0};
			const char *path = paths.gl_pathv[k];
			stamp = stamp_file(path, stamp);
			if (!found || (pattern && strchr(path, '*')))
				continue;
			r = io_read_file(path, FILE_BYTES_MAX, &file, err);
			if (r == 0)
				r = text_ends_with(path, ".json")
					    ? discovery_read_groups(buffer_bytes(&file), "__meta_filepath", path, found, err)
					    : discovery_read_groups_yaml(buffer_bytes(&file), path, found, err);
		}
		globfree(&paths);
	}
	*ret_stamp = stamp;
	return r;
}

int discovery_file(struct discovery *discovery, struct discovered *found, struct error *err)
{
	/* The stamp of before reading: what changes meanwhile is read again. */
	int r = each_file(discovery, &discovery->stamp, NULL, err);
	uint64_t after;
	return r < 0 ? r : each_file(discovery, &after, found, err);
}

bool discovery_file_changed(struct discovery *discovery)
{
	uint64_t stamp;
	return discovery->config->kind == DISCOVERY_FILE && each_file(discovery, &stamp, NULL, NULL) == 0 &&
	       stamp != discovery->stamp;
}

/* ---- HTTP ---- */

/* <Response><Errors><Error><Code/><Message/></Error></Errors></Response>, or <ErrorResponse><Error>... */
static const char *find_message(const struct xml_node *node)
{
	const char *text = xml_node_text(node, "Message");
	for (const struct xml_node *child = node->child; child && !*text; child = child->next)
		text = find_message(child);
	return text;
}

/* What a service reports: {"message": ...}, {"error": {"message": ...}}, <Message>...</Message>, or something else. */
static int describe(const struct net_client_response *response, struct bytes body, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	_cleanup_(xml_tree_freep) struct xml_tree *xml = NULL;
	const struct json_node *root = json_tree_read(body, MESSAGE_BYTES_MAX, &tree, NULL) == 0 ? json_tree_root(tree) : NULL;
	const struct json_node *error = json_node_get(root, "error");
	const struct json_node *message = json_node_get(json_node_is(error, JSON_NODE_OBJECT) ? error : root, "message");
	struct bytes words = json_node_bytes(message);
	if (!words.len && body.len && *body.data == '<' && xml_tree_read(body, MESSAGE_BYTES_MAX, &xml, NULL) == 0)
		words = bytes_of_string(find_message(xml_tree_root(xml)));
	if (!words.len)
		words = json_node_is(error, JSON_NODE_TEXT) ? json_node_bytes(error) : body;
	int r = scrape_http_status(response, words, err);
	return response->status == 401 || response->status == 403 ? -EACCES : r;
}

int discovery_request(struct discovery *discovery, const struct scrape_http *http, struct scrape_request *request, size_t max,
		      struct buffer *ret, struct error *err)
{
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	if (!request->timeout_ns)
		request->timeout_ns = DISCOVERY_TIMEOUT_NS;
	if (!request->accept)
		request->accept = "application/json";
	request->body_max = max;
	request->cancel = &discovery->stop;
	discovery->status = 0;
	discovery->kept[0] = '\0';
	int r = scrape_http_request(&discovery->session, http, request, &response, err);
	if (r < 0)
		return r;
	discovery->status = response.status;
	discovery->retry_after_ns = response.retry_after_ns;
	memcpy(discovery->kept, response.kept, sizeof(discovery->kept));
	r = scrape_http_body(&response, max, ret, err);
	if (r == 0 && response.status != 200)
		r = describe(&response, buffer_bytes(ret), err);
	if (r < 0)
		error_prefix(err, r, "%.*s", scrape_url_length(request->url), request->url);
	return r;
}

int discovery_get(struct discovery *discovery, const struct scrape_http *http, const char *url, size_t max, struct buffer *ret,
		  struct error *err)
{
	struct scrape_request request = {.url = url};
	return discovery_request(discovery, http, &request, max, ret, err);
}

int discovery_get_json(struct discovery *discovery, const struct scrape_http *http, struct scrape_request *request,
		       struct json_tree **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer body = {0};
	int r = discovery_request(discovery, http, request, DISCOVERY_BODY_MAX, &body, err);
	if (r < 0)
		return r;
	r = json_tree_read(buffer_bytes(&body), TREE_BYTES_MAX, ret, err);
	return r < 0 ? error_prefix(err, r, "%.*s", scrape_url_length(request->url), request->url) : 0;
}

int discovery_http(struct discovery *discovery, struct discovered *found, struct error *err)
{
	_cleanup_(buffer_release) struct buffer body = {0};
	const struct discovery_config *config = discovery->config;
	int r = discovery_get(discovery, &config->http, config->url, FILE_BYTES_MAX, &body, err);
	return r < 0 ? r : discovery_read_groups(buffer_bytes(&body), "__meta_url", config->url, found, err);
}
