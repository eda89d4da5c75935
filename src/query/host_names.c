/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of hosts in lists of names and values.
 *
 * Which hosts are selected is known from the values of host_name among the series, and with that how many series and samples a
 * label stands for. That list is asked for only if the table of hosts has something to add.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "query/query_int.h"

#define HOST_TEXTS_MAX (64 * MIB)

/* What the table says: a label of a host. */
struct entry {
	uint32_t host, name, value;
};
/* What the series of a host have. */
struct selected {
	uint64_t series, samples;
	int64_t first_ns, last_ns;
};
struct listing {
	const char *label, *prefix;
	struct intern hosts, texts;
	struct entry *entries; /* of one host after the other */
	size_t entry_count, entry_capacity;
	struct selected *selected; /* by host */
};

static void listing_release(struct listing *listing)
{
	intern_release(&listing->hosts);
	intern_release(&listing->texts);
	mem_free(listing->entries);
	mem_free(listing->selected);
}

static int on_host(void *context, const struct store_host *host, struct error *err)
{
	struct listing *listing = context;
	for (size_t i = 0; i < host->labels->count; i++) {
		const struct label *label = &host->labels->items[i];
		struct entry entry;
		if (listing->label && strncmp(label->value, listing->prefix, strlen(listing->prefix)) != 0)
			continue;
		if (intern_add_string(&listing->hosts, host->name, &entry.host) < 0 ||
		    intern_add_string(&listing->texts, label->name, &entry.name) < 0 ||
		    intern_add_string(&listing->texts, label->value, &entry.value) < 0 ||
		    array_push(&listing->entries, &listing->entry_count, &listing->entry_capacity, UINT32_MAX, entry) < 0)
			return error_nomem(err);
	}
	return 0;
}

/* A source's; sources add up as other names do. */
static int on_selected(void *context, const struct store_item *item, struct error *err)
{
	struct listing *listing = context;
	uint32_t host;
	if (!item->series || !intern_find(&listing->hosts, item->name, strlen(item->name), &host))
		return 0;
	struct selected *to = &listing->selected[host];
	to->first_ns = !to->series || item->first_ns < to->first_ns ? item->first_ns : to->first_ns;
	to->last_ns = !to->series || item->last_ns > to->last_ns ? item->last_ns : to->last_ns;
	to->samples += item->samples;
	to->series = item->series > to->series ? item->series : to->series;
	return 0;
}

/* Names that series have as well keep their own numbers where these are larger: the same series may count in both. */
static void keep_larger(struct query_name *own, const struct query_name *hosts)
{
	if (!own->series || hosts->first_ns < own->first_ns)
		own->first_ns = hosts->first_ns;
	if (!own->series || hosts->last_ns > own->last_ns)
		own->last_ns = hosts->last_ns;
	own->series = hosts->series > own->series ? hosts->series : own->series;
	own->samples = hosts->samples > own->samples ? hosts->samples : own->samples;
	own->values = hosts->values > own->values ? hosts->values : own->values;
	own->hosts = hosts->hosts;
}

static void add_selected(struct query_name *to, const struct selected *host)
{
	to->first_ns = !to->hosts || host->first_ns < to->first_ns ? host->first_ns : to->first_ns;
	to->last_ns = !to->hosts || host->last_ns > to->last_ns ? host->last_ns : to->last_ns;
	to->series += host->series;
	to->samples += host->samples;
	to->hosts++;
}

/* Names of labels, or values of one; each host once, whatever it had at other times. */
static int sum_up(const struct listing *listing, struct names_build *build, struct error *err)
{
	size_t count = listing->texts.count;
	_cleanup_(mem_freep) struct query_name *sums = mem_zalloc_array(count, sizeof(*sums));
	_cleanup_(mem_freep) uint32_t *seen = mem_zalloc_array(count, sizeof(*seen)); /* the last host of a text */
	struct map64 pairs = {0};
	int r = sums && seen ? 0 : error_nomem(err);
	for (size_t i = 0; r == 0 && i < listing->entry_count; i++) {
		const struct entry *entry = &listing->entries[i];
		const struct selected *host = &listing->selected[entry->host];
		uint32_t text = listing->label ? entry->value : entry->name;
		uint64_t key = (uint64_t)entry->name << 32 | entry->value, known;
		if (!host->series)
			continue;
		if (!map64_get(&pairs, key, &known)) {
			sums[text].values++;
			r = map64_put(&pairs, key, 1) < 0 ? error_nomem(err) : 0;
		}
		if (seen[text] != entry->host)
			add_selected(&sums[text], host);
		seen[text] = entry->host;
	}
	map64_release(&pairs);
	for (uint32_t i = 0; r == 0 && i < count; i++) {
		struct query_name *name = NULL;
		if (!sums[i].hosts)
			continue;
		r = query_names_find(build, intern_string(&listing->texts, i), &name, err);
		if (r == 0)
			keep_larger(name, &sums[i]);
	}
	return r;
}

int names_add_hosts(struct store *store, const struct store_select *select, const char *label, const char *prefix,
		    struct names_build *build, struct store_read_stats *stats, struct error *err)
{
	_cleanup_(listing_release) struct listing listing = {.label = label, .prefix = prefix};
	struct store_read_stats read = {0};
	if (label && strcmp(label, STORE_HOST_LABEL) == 0)
		return 0;
	if (intern_init(&listing.hosts, HOST_TEXTS_MAX) < 0 || intern_init(&listing.texts, HOST_TEXTS_MAX) < 0)
		return error_nomem(err);
	int r = store_read_hosts(store, label ? &label : NULL, label ? 1 : 0, select->from_ns, select->to_ns, on_host, &listing,
				 err);
	if (r < 0 || !listing.entry_count)
		return r;
	listing.selected = mem_zalloc_array(listing.hosts.count, sizeof(*listing.selected));
	if (!listing.selected)
		return error_nomem(err);
	r = store_list_values(store, select, STORE_HOST_LABEL, "", on_selected, &listing, &read, err);
	store_read_stats_unite(stats, &read);
	return r < 0 ? r : sum_up(&listing, build, err);
}
