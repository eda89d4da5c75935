/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/symbolize.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/io.h"
#include "cmd/cmd.h"
#include "daemon/host_symbols.h"
#include "elf/build_id.h"
#include "symbol/worker.h"

#define KERNEL_FILE "[kernel.kallsyms]"

static bool is_this_machine(const char *host)
{
	struct utsname here;
	return host && uname(&here) == 0 && strcmp(host, here.nodename) == 0;
}

static bool is_of_this_machine(const struct profile *profile)
{
	return is_this_machine(profile_label_value(profile, profile->resource_labels, "host.name"));
}

static bool lacks_name(const struct profile_location *location)
{
	return location->line_count == 0 && location->mapping != 0;
}

static bool lacks_names(const struct profile *profile)
{
	for (size_t i = 1; i < profile->location_count; i++)
		if (lacks_name(&profile->locations[i]))
			return true;
	return false;
}

/* "/lib/modules/.../nf_tables.ko.xz" -> "[nf_tables]"; "[nf_tables]" as it is. */
static void module_name(const char *file, char *out, size_t size)
{
	const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
	if (base[0] == '[') {
		snprintf(out, size, "%s", base);
		return;
	}
	snprintf(out, size, "[%.*s]", (int)strcspn(base, "."), base);
	for (char *at = out; *at; at++)
		if (*at == '-')
			*at = '_';
}

/* Offsets of core text count from its beginning, which is elsewhere after each boot. A module's place is what it is only as
 * long as it is there, so its name must agree. */
static bool name_kernel(struct host_symbols *symbols, const struct profile *profile, const struct profile_location *location,
			struct agent_symbol *ret)
{
	const struct profile_mapping *mapping = &profile->mappings[location->mapping];
	const char *file = profile_string(profile, mapping->file_name), *build_id = profile_string(profile, mapping->build_id);
	char module[128];
	uint64_t start, end;
	if (strcmp(file, KERNEL_FILE) != 0) {
		module_name(file, module, sizeof(module));
		return location->address >> 63 && host_symbols_kernel(symbols, location->address, ret) &&
		       strcmp(ret->module, module) == 0;
	}
	if (location->address >> 63 || strcmp(build_id, symbols->kernel_build_id) != 0 || !build_id[0])
		return false;
	host_symbols_kernel(symbols, location->address, ret); /* reads the names */
	if (!symbols->kallsyms || !kallsyms_core(symbols->kallsyms, &start, &end))
		return false;
	return location->address < end - start && host_symbols_kernel(symbols, start + location->address, ret);
}

static bool name_jit(struct host_symbols *symbols, const struct profile *profile, const struct profile_location *location,
		     struct agent_symbol *ret)
{
	/* Whoever has ended began since this machine did; a map that is older is another's. */
	struct agent_jit_address address = {.address = location->address, .uid = geteuid(), .started_ns = 1};
	const char *file = profile_string(profile, profile->mappings[location->mapping].file_name);
	int pid, len = 0;
	if (sscanf(file, "/tmp/perf-%d.map%n", &pid, &len) != 1 || len == 0 || file[len] || pid <= 0)
		return false;
	address.pid = pid;
	return host_symbols_jit(symbols, &address, ret);
}

static int set_name(struct profile *profile, uint32_t location, const struct agent_symbol *symbol, struct error *err)
{
	struct profile_function function = {0};
	struct profile_line line = {.line = symbol->line};
	int r = profile_add_cstring(profile, symbol->name, &function.name, err);
	if (r == 0)
		r = profile_add_cstring(profile, symbol->file, &function.file_name, err);
	function.system_name = function.name;
	if (r == 0)
		r = profile_add_function(profile, &function, &line.function, err);
	return r < 0 ? r : profile_set_location_lines(profile, location, &line, 1, err);
}

static int name_by_host(struct profile *profile, struct host_symbols *symbols, struct error *err)
{
	int r = 0;
	for (uint32_t i = 1; r == 0 && i < profile->location_count; i++) {
		const struct profile_location *location = &profile->locations[i];
		struct agent_symbol symbol = {0};
		bool found = false;
		if (!lacks_name(location))
			continue;
		if (location->frame_type == PROFILE_FRAME_KERNEL)
			found = name_kernel(symbols, profile, location, &symbol);
		else if (location->frame_type == PROFILE_FRAME_JIT)
			found = name_jit(symbols, profile, location, &symbol);
		if (found)
			r = set_name(profile, i, &symbol, err);
	}
	return r;
}

static int name_by_files(struct profile *profile, struct error *err)
{
	/* In a process of its own: files may be anybody's. */
	static const struct symbol_worker_options worker = {.program = "/proc/self/exe"};
	struct symbolizer_options options = {
		.worker = &worker, .own_files = true, .file_cache_directory = symbol_cache_directory()};
	_cleanup_(symbolizer_freep) struct symbolizer *symbolizer = NULL;
	int r = symbolizer_new(&options, &symbolizer, err);
	return r < 0 ? r : symbolizer_resolve(symbolizer, profile, 1, NULL, NULL, err);
}

int symbolize_profile(struct profile *profile, enum symbols_how how, struct error *err)
{
	struct host_symbols symbols;
	if (how == SYMBOLS_NEVER || (how == SYMBOLS_AUTO && !is_of_this_machine(profile)) || !lacks_names(profile))
		return 0;
	int r = host_symbols_init(&symbols, err);
	if (r < 0)
		return r;
	r = name_by_host(profile, &symbols, err);
	host_symbols_release(&symbols);
	return r < 0 ? r : name_by_files(profile, err);
}

/* ---- files for unwinding ---- */

static int open_of_build_id(const char *path, const char *build_id)
{
	char found[BUILD_ID_HEX_MAX];
	_cleanup_(fd_closep) int fd = io_open_regular(path, NULL);
	if (fd < 0)
		return fd;
	int r = build_id_read_fd(fd, found, NULL);
	if (r < 0)
		return r;
	return strcmp(found, build_id) == 0 ? fd_take(&fd) : -ESTALE;
}

/* perf record keeps a copy of what was sampled in ~/.debug/.build-id/XX/YYYY.../elf. */
static int open_of_perf(const struct format_binary *binary)
{
	char path[PATH_MAX];
	const char *home = getenv("HOME"), *id = binary->build_id;
	const char *name = strcmp(binary->path, "[vdso]") == 0 ? "vdso" : "elf";
	if (!home || !build_id_is_valid(id) ||
	    snprintf(path, sizeof(path), "%s/.debug/.build-id/%.2s/%s/%s", home, id, id + 2, name) >= (int)sizeof(path))
		return -ENOENT;
	return open_of_build_id(path, id);
}

int symbolize_open_binary(void *context, const struct format_binary *binary)
{
	enum symbols_how how = *(const enum symbols_how *)context;
	bool is_path = binary->path[0] == '/';
	if (how == SYMBOLS_NEVER)
		return -EPERM;
	if (binary->build_id[0]) {
		int fd = is_path ? open_of_build_id(binary->path, binary->build_id) : -ENOENT;
		return fd >= 0 ? fd : open_of_perf(binary);
	}
	if (!is_path || (how != SYMBOLS_ALWAYS && !is_this_machine(binary->host)))
		return -ENOENT;
	return io_open_regular(binary->path, NULL);
}
