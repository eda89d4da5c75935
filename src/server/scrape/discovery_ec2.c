/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ec2_sd_configs: instances of AWS EC2, by DescribeInstances of its query API
 * (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/), whose responses are XML in pages. The labels have Prometheus'
 * names. Who we are to AWS: aws_login.c. How requests are signed: aws_sign.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "codec/xml_tree.h"
#include "server/scrape/discovery_cloud.h"
#include "server/scrape/discovery_set.h"

#define META	       "__meta_ec2_"
#define FORM_BYTES_MAX (256 * KIB)
#define TREE_BYTES_MAX (256 * MIB)
#define LIST_BYTES_MAX (16 * KIB)
#define DEVICES_MAX    64

struct listing {
	struct discovery *discovery;
	struct discovery_cloud *cloud;
	struct discovered *found;
	char port[8], url[EC2_ENDPOINT_MAX + 1];
	struct error *err;
};

/* ---- requests ---- */

static int post(struct listing *listing, struct buffer *form, struct xml_tree **ret)
{
	_cleanup_(buffer_release) struct buffer body = {0};
	struct discovery_cloud *cloud = listing->cloud;
	if (buffer_status(form) < 0)
		return error_set_errno(listing->err, buffer_status(form), "cannot create the request to EC2");
	int r = aws_post(listing->discovery, &cloud->aws, "ec2", cloud->region, listing->url, buffer_bytes(form), &body,
			 listing->err);
	if (r == 0)
		r = xml_tree_read(buffer_bytes(&body), TREE_BYTES_MAX, ret, listing->err);
	else if (r == -EACCES)
		aws_login_release(&cloud->aws); /* they may have been changed: look for others the next time */
	return r < 0 ? error_prefix(listing->err, r, "EC2") : 0;
}

static void begin_form(struct buffer *form, const char *action)
{
	scrape_append_pair(form, "Action", action);
	scrape_append_pair(form, "Version", "2016-11-15");
}

static void append_filters(const struct discovery_config *config, struct buffer *form)
{
	char name[64];
	for (size_t i = 0; i < config->filter_count; i++) {
		snprintf(name, sizeof(name), "Filter.%zu.Name", i + 1);
		scrape_append_pair(form, name, config->filters[i].name);
		for (size_t k = 0; k < config->filters[i].count; k++) {
			snprintf(name, sizeof(name), "Filter.%zu.Value.%zu", i + 1, k + 1);
			scrape_append_pair(form, name, config->filters[i].values[k]);
		}
	}
}

/* The ids of zones differ from their names, by account. That they cannot be had is no reason to have no targets. */
static void find_zones(struct listing *listing)
{
	_cleanup_(buffer_release) struct buffer form = {.max = FORM_BYTES_MAX};
	_cleanup_(xml_tree_freep) struct xml_tree *tree = NULL;
	struct discovery_cloud *cloud = listing->cloud;
	struct error ignored = {0}, *err = listing->err;
	begin_form(&form, "DescribeAvailabilityZones");
	listing->err = &ignored;
	int r = post(listing, &form, &tree);
	listing->err = err;
	if (r < 0)
		return;
	const struct xml_node *item = xml_node_get(xml_tree_root(tree), "availabilityZoneInfo");
	for (item = item ? item->child : NULL; item; item = item->next) {
		if (cloud->zone_count == sizeof(cloud->zones) / sizeof(*cloud->zones))
			break;
		struct aws_zone *zone = &cloud->zones[cloud->zone_count++];
		snprintf(zone->name, sizeof(zone->name), "%.39s", xml_node_text(item, "zoneName"));
		snprintf(zone->id, sizeof(zone->id), "%.39s", xml_node_text(item, "zoneId"));
	}
	cloud->has_zones = true;
}

static const char *zone_id(const struct discovery_cloud *cloud, const char *name)
{
	for (size_t i = 0; i < cloud->zone_count; i++)
		if (!strcmp(cloud->zones[i].name, name))
			return cloud->zones[i].id;
	return "";
}

/* ---- instances ---- */

/* ",a,b,", of a list that was made of "a," each. */
static void put_joined(struct discovery_set *set, const char *name, const struct buffer *list)
{
	char *text = list->len && buffer_status(list) == 0 ? arena_alloc(set->texts, list->len + 2) : NULL;
	if (!text)
		return;
	text[0] = ',';
	memcpy(text + 1, list->data, list->len);
	text[list->len + 1] = '\0';
	discovery_put(set, name, text);
}

struct addresses { /* of IPv6 */
	const char *primary[DEVICES_MAX];
	size_t primary_count;
	const char *first; /* that is no primary one */
	struct buffer all, subnets;
};

static void take_interface(const struct xml_node *interface, struct addresses *ret)
{
	const char *subnet = xml_node_text(interface, "subnetId");
	const struct xml_node *item = xml_node_get(interface, "ipv6AddressesSet");
	uint64_t device = 0;
	char entry[80];
	if (!*subnet)
		return;
	/* Each once, in the order of the response. */
	snprintf(entry, sizeof(entry), "%.70s,", subnet);
	if (!ret->subnets.len || !memmem(ret->subnets.data, ret->subnets.len, entry, strlen(entry)))
		buffer_append_string(&ret->subnets, entry);
	if (text_parse_u64(xml_node_text(xml_node_get(interface, "attachment"), "deviceIndex"), &device, NULL) < 0)
		device = 0;
	for (item = item ? item->child : NULL; item; item = item->next) {
		const char *address = xml_node_text(item, "ipv6Address");
		if (!*address)
			continue;
		buffer_printf(&ret->all, "%s,", address);
		if (!ret->first)
			ret->first = address;
		if (strcmp(xml_node_text(item, "isPrimaryIpv6"), "true") || device >= DEVICES_MAX)
			continue;
		ret->primary[device] = address;
		if (device >= ret->primary_count)
			ret->primary_count = device + 1;
	}
}

static const char *default_address(const struct addresses *addresses)
{
	for (size_t i = 0; i < addresses->primary_count; i++)
		if (addresses->primary[i])
			return addresses->primary[i];
	return addresses->first ? addresses->first : "";
}

static void put_addresses(struct discovery_set *set, const struct addresses *addresses, const char *best)
{
	_cleanup_(buffer_release) struct buffer primary = {.max = LIST_BYTES_MAX};
	/* Places are those of the devices: some may be empty. */
	for (size_t i = 0; i < addresses->primary_count; i++)
		buffer_printf(&primary, "%s,", addresses->primary[i] ? addresses->primary[i] : "");
	discovery_put(set, META "default_ipv6_address", best);
	put_joined(set, META "primary_ipv6_addresses", &primary);
	put_joined(set, META "ipv6_addresses", &addresses->all);
}

static void put_tags(struct discovery_set *set, const struct xml_node *instance)
{
	const struct xml_node *item = xml_node_get(instance, "tagSet");
	for (item = item ? item->child : NULL; item; item = item->next)
		discovery_put_key(set, META "tag_", bytes_of_string(xml_node_text(item, "key")), xml_node_text(item, "value"));
}

static void put_instance(struct listing *listing, struct discovery_set *set, const struct xml_node *instance, const char *owner)
{
	const char *zone = xml_node_text(xml_node_get(instance, "placement"), "availabilityZone");
	const char *public_ip = xml_node_text(instance, "ipAddress");
	discovery_put(set, META "instance_id", xml_node_text(instance, "instanceId"));
	discovery_put(set, META "region", listing->cloud->region);
	discovery_put(set, META "owner_id", owner);
	discovery_put(set, META "private_ip", xml_node_text(instance, "privateIpAddress"));
	discovery_put(set, META "private_dns_name", xml_node_text(instance, "privateDnsName"));
	discovery_put(set, META "platform", xml_node_text(instance, "platform"));
	discovery_put(set, META "public_ip", public_ip);
	discovery_put(set, META "public_dns_name", *public_ip ? xml_node_text(instance, "dnsName") : "");
	discovery_put(set, META "ami", xml_node_text(instance, "imageId"));
	discovery_put(set, META "availability_zone", zone);
	discovery_put(set, META "availability_zone_id", zone_id(listing->cloud, zone));
	discovery_put(set, META "instance_state", xml_node_text(xml_node_get(instance, "instanceState"), "name"));
	discovery_put(set, META "instance_type", xml_node_text(instance, "instanceType"));
	discovery_put(set, META "instance_lifecycle", xml_node_text(instance, "instanceLifecycle"));
	discovery_put(set, META "architecture", xml_node_text(instance, "architecture"));
}

static int take_instance(struct listing *listing, struct discovery_set *set, const struct xml_node *instance, const char *owner)
{
	struct addresses addresses = {.all.max = LIST_BYTES_MAX, .subnets.max = LIST_BYTES_MAX};
	const char *vpc = xml_node_text(instance, "vpcId"), *ip = xml_node_text(instance, "privateIpAddress");
	const struct xml_node *interface = *vpc ? xml_node_get(instance, "networkInterfaceSet") : NULL;
	for (interface = interface ? interface->child : NULL; interface; interface = interface->next)
		take_interface(interface, &addresses);
	const char *best = default_address(&addresses);
	int r = 0;
	if (*ip || *best) {
		put_instance(listing, set, instance, owner);
		put_addresses(set, &addresses, best);
		if (*vpc) {
			discovery_put(set, META "vpc_id", vpc);
			discovery_put(set, META "primary_subnet_id", xml_node_text(instance, "subnetId"));
			put_joined(set, META "subnet_id", &addresses.subnets);
		}
		put_tags(set, instance);
		r = discovery_set_add(set, *ip ? ip : best, listing->port, listing->found, listing->err);
	}
	buffer_release(&addresses.all);
	buffer_release(&addresses.subnets);
	return r;
}

static int take_page(struct listing *listing, const struct xml_node *root)
{
	const struct xml_node *reservation = xml_node_get(root, "reservationSet");
	int r = 0;
	for (reservation = reservation ? reservation->child : NULL; reservation && r == 0; reservation = reservation->next) {
		const struct xml_node *instance = xml_node_get(reservation, "instancesSet");
		for (instance = instance ? instance->child : NULL; instance && r == 0; instance = instance->next) {
			struct discovery_set set;
			discovery_set_init(&set);
			r = take_instance(listing, &set, instance, xml_node_text(reservation, "ownerId"));
			discovery_set_release(&set);
		}
	}
	return r;
}

/* Positive: there is a next page, for which the token is in *token. */
static int get_page(struct listing *listing, struct buffer *token)
{
	_cleanup_(buffer_release) struct buffer form = {.max = FORM_BYTES_MAX};
	_cleanup_(xml_tree_freep) struct xml_tree *tree = NULL;
	begin_form(&form, "DescribeInstances");
	scrape_append_pair(&form, "MaxResults", "1000");
	append_filters(listing->discovery->config, &form);
	if (token->len)
		scrape_append_pair(&form, "NextToken", buffer_string(token));
	int r = post(listing, &form, &tree);
	if (r == 0 && strcmp(xml_tree_root(tree)->name, "DescribeInstancesResponse"))
		r = error_set(listing->err, -EBADMSG, "EC2: expected a DescribeInstancesResponse");
	if (r == 0)
		r = take_page(listing, xml_tree_root(tree));
	if (r < 0)
		return r;
	r = discovery_keep_page(token, xml_node_text(xml_tree_root(tree), "nextToken"), listing->err);
	return r < 0 ? error_prefix(listing->err, r, "EC2") : r;
}

int discovery_ec2(struct discovery *discovery, struct discovered *found, struct error *err)
{
	_cleanup_(buffer_release) struct buffer token = {.max = 64 * KIB};
	struct discovery_cloud *cloud = discovery_cloud_get(discovery, err);
	struct listing listing = {.discovery = discovery, .cloud = cloud, .found = found, .err = err};
	const char *endpoint = discovery->config->ec2.endpoint;
	int r = cloud ? aws_find_region(discovery, err) : -ENOMEM;
	if (r == 0)
		r = aws_log_in(discovery, err);
	if (r < 0)
		return r;
	snprintf(listing.port, sizeof(listing.port), "%u", discovery->config->port);
	if (endpoint)
		snprintf(listing.url, sizeof(listing.url), "%s", endpoint);
	else
		aws_regional_url("ec2", cloud->region, listing.url, sizeof(listing.url));
	if (!cloud->has_zones)
		find_zones(&listing);
	if (!cloud->aws.access_key) /* refused */
		r = aws_log_in(discovery, err);
	r = r < 0 ? r : 1;
	for (unsigned i = 0; r > 0 && i < CLOUD_PAGES_MAX; i++)
		r = get_page(&listing, &token);
	return r > 0 ? error_set(err, -E2BIG, "EC2: more than %d pages", CLOUD_PAGES_MAX) : r;
}
