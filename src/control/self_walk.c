/* SPDX-License-Identifier: Apache-2.0 */
#include "control/self_walk.h"

#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "elf/elf_file.h"
#include "unwind/unwind_table.h"

/* ---- tables ---- */

void self_mappings_release(struct self_mappings *mappings)
{
	for (size_t i = 0; i < mappings->count; i++) {
		mem_free(mappings->items[i].path);
		buffer_release(&mappings->items[i].table);
	}
	mem_free(mappings->items);
	*mappings = (struct self_mappings){0};
}

struct self_mapping *self_mappings_find(const struct self_mappings *mappings, uint64_t address)
{
	for (size_t i = 0; i < mappings->count; i++)
		if (address >= mappings->items[i].start && address < mappings->items[i].end)
			return &mappings->items[i];
	return NULL;
}

/* Without one the stack is walked by frame pointers from there on. */
static void build_table(struct self_mapping *mapping)
{
	struct unwind_table_stats stats = {0};
	struct elf_file file;
	mapping->has_table = true;
	_cleanup_(fd_closep) int fd = mapping->path ? open(mapping->path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0 || elf_file_open(&file, fd, mapping->path, NULL) < 0)
		return;
	buffer_init(&mapping->table, UNWIND_TABLE_BYTES_MAX);
	if (unwind_table_build(&file, &mapping->table, &stats, NULL) < 0 ||
	    (mapping->table.len && !unwind_table_check(mapping->table.data, mapping->table.len)))
		buffer_clear(&mapping->table);
	elf_file_release(&file);
}

static const struct unwind_rule *find_rule(const struct self_mappings *mappings, uint64_t address)
{
	struct self_mapping *mapping = self_mappings_find(mappings, address);
	if (!mapping)
		return NULL;
	if (!mapping->has_table)
		build_table(mapping);
	return mapping->table.len ? unwind_table_find(mapping->table.data, address - mapping->start + mapping->offset) : NULL;
}

/* ---- steps ---- */

struct walk {
	const struct self_sample *sample;
	uint64_t pc, sp, fp;
	bool fp_is_known;
};

static bool read_copy(const struct walk *walk, uint64_t address, uint64_t *ret)
{
	uint64_t at = address - walk->sample->sp;
	if (at > walk->sample->stack_bytes || walk->sample->stack_bytes - at < sizeof(*ret))
		return false;
	memcpy(ret, walk->sample->stack + at, sizeof(*ret));
	return true;
}

static bool find_frame(const struct walk *walk, const struct unwind_rule *rule, uint64_t *ret)
{
	unsigned kind = rule->cfa & ~(unsigned)UNWIND_RULE_ANALYSED;
	bool by_fp = rule->cfa_register == UNWIND_REGISTER_FP;
	if (kind == UNWIND_CFA_PLT) {
		uint64_t pushed = (walk->pc & 15) >= (uint64_t)(uint32_t)rule->offset2 ? 8 : 0;
		*ret = walk->sp + (uint64_t)(int64_t)rule->offset + pushed;
		return true;
	}
	if (kind != UNWIND_CFA_REGISTER || (by_fp ? !walk->fp_is_known : rule->cfa_register != UNWIND_REGISTER_SP))
		return false;
	*ret = (by_fp ? walk->fp : walk->sp) + (uint64_t)(int64_t)rule->offset;
	return true;
}

/* To the caller; false if the copy or the rule does not tell where it is. */
static bool step(struct walk *walk, const struct unwind_rule *rule)
{
	uint64_t frame, caller, fp = walk->fp;
	bool fp_is_known = walk->fp_is_known;
	if (!find_frame(walk, rule, &frame) || frame <= walk->sp || rule->ra != UNWIND_WHERE_CFA ||
	    !read_copy(walk, frame + (uint64_t)(int64_t)rule->ra_offset, &caller))
		return false;
	if (rule->fp == UNWIND_WHERE_CFA || rule->fp == UNWIND_WHERE_FP)
		fp_is_known = read_copy(
			walk, (rule->fp == UNWIND_WHERE_CFA ? frame : walk->fp) + (uint64_t)(int64_t)rule->fp_offset, &fp);
	else if (rule->fp != UNWIND_WHERE_SAME)
		fp_is_known = false;
	*walk = (struct walk){walk->sample, caller, frame, fp, fp_is_known};
	return true;
}

size_t self_walk(const struct self_mappings *mappings, const struct self_sample *sample, uint64_t ret[static SELF_FRAMES_MAX])
{
	struct walk walk = {sample, sample->pc, sample->sp, sample->fp, true};
	size_t count = 0;
	ret[count++] = sample->pc;
	while (count < SELF_FRAMES_MAX) {
		const struct unwind_rule *rule = find_rule(mappings, walk.pc - (count > 1));
		if (rule && (rule->cfa & ~(unsigned)UNWIND_RULE_ANALYSED) == UNWIND_CFA_END)
			return count;
		if (!rule || !step(&walk, rule))
			break;
		if (!walk.pc)
			return count;
		ret[count++] = walk.pc;
	}
	/* Return addresses of frames that are further up. */
	for (uint32_t i = 0; i < sample->frame_count && count < SELF_FRAMES_MAX; i++)
		if (sample->frames[i].at >= walk.sp)
			ret[count++] = sample->frames[i].caller;
	return count;
}
