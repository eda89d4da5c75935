/* SPDX-License-Identifier: Apache-2.0 */
/* What says what to scrape: target groups as JSON and as YAML, scrape_configs, and the XML and the tokens that services respond
 * with. Whatever they hold, a failure says why, and what was found has an address each. */
#include <string.h>

#include "codec/xml_tree.h"
#include "server/scrape/scrape_int.h"

#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_found(struct discovered *found, int r, const struct error *err)
{
	must(r == 0 || err->message[0]);
	for (size_t i = 0; i < found->count; i++) {
		must(found->sets[i].count > 0 && !strcmp(found->sets[i].labels[0].name, "__address__"));
		for (size_t k = 0; k < found->sets[i].count; k++)
			must(found->sets[i].labels[k].name && found->sets[i].labels[k].value);
	}
	discovered_free(found);
}

static void check_config(struct bytes text)
{
	struct scrape_config *config = NULL;
	struct error err = {0};
	yaml_parser_t parser;
	yaml_document_t document;
	must(yaml_parser_initialize(&parser));
	yaml_parser_set_input_string(&parser, text.data, text.len);
	if (yaml_parser_load(&parser, &document)) {
		const yaml_node_t *root = yaml_document_get_root_node(&document);
		int r = root ? scrape_config_read(&document, root, "fuzz", &config, &err) : 0;
		must(r == 0 || err.message[0]);
		for (size_t i = 0; r == 0 && config && i < config->count; i++)
			must(config->jobs[i]->name && config->jobs[i]->interval_ns > 0 && config->jobs[i]->timeout_ns > 0);
		yaml_document_delete(&document);
	}
	yaml_parser_delete(&parser);
	scrape_config_free(config);
}

static void walk(const struct xml_node *node, unsigned depth)
{
	must(depth < XML_TREE_DEPTH_MAX && node->name[0] && node->text);
	for (const struct xml_node *child = node->child; child; child = child->next)
		walk(child, depth + 1);
}

static void check_responses(struct bytes text)
{
	struct xml_tree *tree = NULL;
	struct scrape_grant grant = {.value.max = 8192};
	struct error err = {0};
	int r = xml_tree_read(text, 1 << 24, &tree, &err);
	must(r == 0 || err.message[0]);
	if (r == 0)
		walk(xml_tree_root(tree), 0);
	xml_tree_free(tree);
	err.message[0] = '\0';
	r = scrape_read_grant(text, &grant, &err);
	must(r == 0 || err.message[0]);
	buffer_release(&grant.value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes text = {data, size};
	struct error err = {0};
	struct discovered *found = discovered_new();
	int r = discovery_read_groups(text, "__meta_url", "fuzz", found, &err);
	check_found(found, r, &err);
	found = discovered_new();
	err.message[0] = '\0';
	r = discovery_read_groups_yaml(text, "fuzz", found, &err);
	check_found(found, r, &err);
	check_config(text);
	check_responses(text);
	return 0;
}
