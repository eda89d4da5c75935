/* SPDX-License-Identifier: Apache-2.0 */
/* wick store repair: what is done with each damaged block, a line a block. */
#include "store/repair.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>

#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/store_verbs.h"

struct printing {
	bool dry_run;
	int64_t shown_ns; /* when progress was */
	bool is_shown;
};

static void clear_progress(struct printing *p)
{
	if (p->is_shown)
		fprintf(stderr, "\r\033[K");
	p->is_shown = false;
}

static void show_progress(void *context, uint64_t done, uint64_t count, uint64_t bytes_done, uint64_t bytes)
{
	struct printing *p = context;
	char is[TEXT_NUMBER_MAX], all[TEXT_NUMBER_MAX];
	int64_t now_ns = time_monotonic_ns();
	if (!terminal_is_interactive() || now_ns - p->shown_ns < NS_PER_S / 5)
		return;
	p->shown_ns = now_ns;
	p->is_shown = true;
	fprintf(stderr, "\r\033[Kblock %llu of %llu, %s of %s", (unsigned long long)done + 1, (unsigned long long)count,
		text_format_size(bytes_done, is), text_format_size(bytes, all));
	fflush(stderr);
}

static void print_damage(void *context, const char *message)
{
	clear_progress(context);
	cmd_printf(stderr, "wick store: %s\n", message);
}

static void print_rewritten(const struct store_repair_block *block, bool dry_run)
{
	char from[TIME_TEXT_MAX], to[TIME_TEXT_MAX];
	cmd_printf(stdout, "; %s", dry_run ? "to be rewritten" : "rewritten");
	if (block->fresh_name[0])
		cmd_printf(stdout, " as %s", block->fresh_name);
	printf(": %llu rows kept, %llu rows lost", (unsigned long long)block->rows_kept, (unsigned long long)block->rows_lost);
	if (block->rows_lost)
		cmd_printf(stdout, " (%s to %s)", time_format(block->lost_from_ns, from), time_format(block->lost_to_ns, to));
	if (block->names_lost)
		printf(", %llu rows of names lost", (unsigned long long)block->names_lost);
	if (block->rebuilt[0])
		cmd_printf(stdout, ", %s %s", dry_run ? "to be rebuilt:" : "rebuilt:", block->rebuilt);
}

static void print_block(void *context, const struct store_repair_block *block)
{
	struct printing *p = context;
	clear_progress(p);
	cmd_printf(stdout, "%s%s: ", block->was_set_aside ? "quarantine/" : "", block->name);
	if (block->bits)
		cmd_printf(stdout, "%llu flipped bit%s %s%s", (unsigned long long)block->bits, block->bits == 1 ? "" : "s",
			   p->dry_run ? "to be put right" : "put right", block->parts ? ", " : "");
	if (block->parts)
		cmd_printf(stdout, "%llu damaged part%s", (unsigned long long)block->parts, block->parts == 1 ? "" : "s");
	switch (block->outcome) {
	case STORE_REPAIR_WHOLE:
		if (block->was_set_aside)
			cmd_printf(stdout, "%s%s", block->bits ? "; " : "nothing is damaged; ",
				   p->dry_run ? "to be used again" : "in use again");
		break;
	case STORE_REPAIR_REWRITTEN: print_rewritten(block, p->dry_run); break;
	case STORE_REPAIR_FAILED:
		cmd_printf(stdout, "%scannot be repaired: %s", block->bits || block->parts ? "; " : "", block->why);
		break;
	case STORE_REPAIR_REPLACED: printf("another block has all of it"); break;
	}
	printf("\n");
}

static int repair_one(const struct store_arguments_of *a, const char *directory, bool *ret_loss, uint64_t *failed,
		      struct error *err)
{
	struct printing printing = {.dry_run = a->dry_run};
	const struct store_repair_options options = {.directory = directory,
						     .dry_run = a->dry_run,
						     .on_block = print_block,
						     .on_damage = print_damage,
						     .on_progress = show_progress,
						     .context = &printing};
	struct store_repair_result result;
	int r = store_repair(&options, &result, err);
	clear_progress(&printing);
	if (r < 0)
		return r;
	cmd_printf(
		stdout,
		"%s: %llu blocks, %llu damaged; %llu flipped bits put right, %llu rewritten, %llu out of the quarantine, %llu "
		"cannot be repaired; %llu rows kept, %llu lost%s\n",
		directory, (unsigned long long)result.blocks, (unsigned long long)result.damaged,
		(unsigned long long)result.bits, (unsigned long long)result.rewritten, (unsigned long long)result.restored,
		(unsigned long long)result.failed, (unsigned long long)result.rows_kept, (unsigned long long)result.rows_lost,
		a->dry_run ? "; nothing was changed" : "");
	if (result.host_bytes_lost)
		cmd_printf(stdout, "%s: labels of hosts: %llu bytes lost\n", directory,
			   (unsigned long long)result.host_bytes_lost);
	*ret_loss |= result.rows_lost > 0 || result.names_lost > 0 || result.host_bytes_lost > 0;
	*failed += result.failed;
	return 0;
}

int store_repair_all(const struct store_arguments_of *a, bool *ret_loss, struct error *err)
{
	char path[STORE_DIRECTORY_MAX], one[STORE_DIRECTORY_MAX];
	uint64_t failed = 0;
	*ret_loss = false;
	int r = repair_one(a, a->directory, ret_loss, &failed, err);
	if (r == 0)
		r = io_join_path(path, sizeof(path), a->directory, "tenants");
	_cleanup_(dir_closep) DIR *tenants = r == 0 && !a->remote.tenant ? opendir(path) : NULL;
	for (const struct dirent *entry; r == 0 && tenants && (entry = readdir(tenants));)
		if (entry->d_name[0] != '.' && !(r = io_join_path(one, sizeof(one), path, entry->d_name)))
			r = repair_one(a, one, ret_loss, &failed, err);
	if (r == -ENAMETOOLONG)
		return error_set(err, r, "a tenant's path is too long");
	if (r == 0 && failed)
		r = error_set(err, -EBADMSG, "%llu blocks cannot be repaired; they are kept in quarantine/",
			      (unsigned long long)failed);
	return r;
}
