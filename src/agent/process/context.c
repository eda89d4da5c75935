// SPDX-License-Identifier: Apache-2.0
/*
 * Control groups are directories, and who makes one names it. There is no registry of names; what follows are the habits of the
 * programs that make them:
 *
 *   docker, cgroupfs driver      /docker/ID; below --cgroup-parent: /PARENT/ID
 *   systemd driver               /system.slice/docker-ID.scope; likewise cri-containerd-, nerdctl-, crio-, libpod- (podman)
 *   without systemd              /crio-ID, /libpod_parent/libpod-ID; podman inside a service: libpod-payload-ID
 *   containerd by itself         /NAMESPACE/ID, where the namespace is "default" (nerdctl, ctr) or "k8s.io"
 *   containerd, misconfigured    /system.slice/containerd.service/SLICE:cri-containerd:ID (a systemd path used as a directory)
 *   Kubernetes, cgroupfs         /kubepods/[burstable/|besteffort/]podUID/ID
 *   Kubernetes, systemd          /kubepods.slice/[..]/kubepods[-burstable|-besteffort]-podUID.slice/..., '-' of the UID as '_'
 *   kind, minikube, k3d          the same again below a container's directory, perhaps with "kubelet-" before "kubepods"
 *   ECS                          /ecs/TASK/ID, /ecs/CLUSTER/TASK/ID, and on Fargate /ecs/TASK/TASK-NUMBER
 *   LXC                          /lxc.payload.NAME, /lxc.payload/NAME, /lxc/NAME
 *   systemd-nspawn               /machine.slice/{machine-NAME.scope|systemd-nspawn@NAME.service}/payload
 *   systemd                      slices, then a unit; for user@UID.service slices and a unit of the user's manager follow
 *
 * The path is walked once, component by component, and what is found deeper replaces what was found before: a container in a
 * container is what the process runs in. A container begins a new tree, in which another systemd may run.
 *
 * The names are hostile text: a user with a delegated subtree can make any directory in it. So a component is believed only
 * as a whole: the prefix, exactly 64 lower-case hex digits, the suffix, and nothing else. A half match gives no label. What
 * that cannot prevent is a user who names a directory of his own after somebody else's container. Below user@UID.service,
 * which is all of one user's making, no new tree begins, so that unit and slice still tell whose processes they are.
 */
#include "agent/process/context.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ID_DIGITS      64u
#define NAME_BYTES_MAX 255u /* of a directory */
#define LOWER_HEX      "0123456789abcdef"
#define DIGITS	       "0123456789"
#define UNIT_LETTERS   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@"

/* One component; not terminated. */
struct part {
	const char *text;
	size_t len;
};

/* Where the walk stands among systemd's directories. */
enum manager {
	MANAGER_SLICES,	     /* leading slices of a system's manager */
	MANAGER_USER_SLICES, /* below user@UID.service */
	MANAGER_DONE,	     /* below a unit: what its program made */
};

struct walk {
	struct context *ret;
	struct part part, parent, grandparent; /* len 0 = none */
	enum manager manager;
	bool in_ecs;
	bool in_user;  /* below user@UID.service: all of it is that user's */
	bool in_inner; /* just entered a container: units found so far are of the manager outside */
};

static bool is_text(struct part part, const char *text)
{
	return part.len == strlen(text) && memcmp(part.text, text, part.len) == 0;
}

static bool take_prefix(struct part *part, const char *prefix)
{
	size_t len = strlen(prefix);
	if (part->len < len || memcmp(part->text, prefix, len) != 0)
		return false;
	part->text += len;
	part->len -= len;
	return true;
}

static bool take_suffix(struct part *part, const char *suffix)
{
	size_t len = strlen(suffix);
	if (part->len < len || memcmp(part->text + part->len - len, suffix, len) != 0)
		return false;
	part->len -= len;
	return true;
}

static bool is_of(struct part part, const char *letters)
{
	for (size_t i = 0; i < part.len; i++) {
		if (!part.text[i] || !strchr(letters, part.text[i]))
			return false;
	}
	return part.len > 0;
}

static bool is_hex(struct part part, size_t len)
{
	return part.len == len && is_of(part, LOWER_HEX);
}

/* Copies what fits; nothing of what does not. */
static void set(char *out, size_t size, struct part part)
{
	if (part.len < size) {
		memcpy(out, part.text, part.len);
		out[part.len] = 0;
	}
}

/* ---- containers ---- */

/* What was known of an outer container says nothing about what is in it. */
static void forget_container(struct context *ret)
{
	ret->container_id[0] = ret->container_name[0] = ret->container_runtime[0] = 0;
}

static void enter_container(struct walk *walk, const char *runtime)
{
	forget_container(walk->ret);
	snprintf(walk->ret->container_runtime, sizeof(walk->ret->container_runtime), "%s", runtime);
	if (!walk->in_user) { /* a systemd may run in it */
		walk->manager = MANAGER_SLICES;
		walk->in_inner = true;
	}
}

static void found_id(struct walk *walk, const char *runtime, struct part id)
{
	enter_container(walk, runtime);
	set(walk->ret->container_id, sizeof(walk->ret->container_id), id);
}

static void found_name(struct walk *walk, const char *runtime, struct part name)
{
	enter_container(walk, runtime);
	set(walk->ret->container_name, sizeof(walk->ret->container_name), name);
}

/* "PREFIXID", "PREFIXID.scope", "SLICE:NAME:ID" */
static bool find_prefixed(struct walk *walk)
{
	static const struct {
		const char *prefix, *runtime;
		bool scope_only;
	} forms[] = {
		{"docker-", "docker", true},	  {"cri-containerd-", "containerd", true},
		{"nerdctl-", "containerd", true}, {"crio-", "cri-o", false},
		{"libpod-", "podman", false},	  {"libpod-payload-", "podman", false},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		struct part id = walk->part;
		if (take_prefix(&id, forms[i].prefix) && (take_suffix(&id, ".scope") || !forms[i].scope_only) &&
		    is_hex(id, ID_DIGITS)) {
			found_id(walk, forms[i].runtime, id);
			return true;
		}
	}
	return false;
}

/* "PARENT.slice:cri-containerd:ID": *ret_slice is the parent, which may be a pod's. */
static bool find_colons(struct walk *walk, struct part *ret_slice)
{
	static const char *const names[][2] = {
		{":cri-containerd:", "containerd"}, {":docker:", "docker"}, {":crio:", "cri-o"}, {":libpod:", "podman"}};
	struct part id = walk->part;

	if (id.len <= ID_DIGITS)
		return false;
	id.text += id.len - ID_DIGITS;
	id.len = ID_DIGITS;
	for (size_t i = 0; is_hex(id, ID_DIGITS) && i < sizeof(names) / sizeof(*names); i++) {
		struct part slice = {walk->part.text, walk->part.len - ID_DIGITS};
		struct part name;
		if (!take_suffix(&slice, names[i][0]))
			continue;
		name = slice;
		if (!take_suffix(&name, ".slice") || !is_of(name, UNIT_LETTERS))
			continue;
		*ret_slice = slice;
		found_id(walk, names[i][1], id);
		return true;
	}
	return false;
}

static const char *runtime_of_parent(const struct walk *walk)
{
	if (is_text(walk->parent, "docker"))
		return "docker";
	if (!walk->grandparent.len && (is_text(walk->parent, "default") || is_text(walk->parent, "k8s.io")))
		return "containerd";
	return ""; /* a pod's container, or one with a parent of the user's choice: any runtime's */
}

/* ECS: a directory named by the task alone is no container. */
static bool find_ecs(struct walk *walk)
{
	struct part rest = walk->part;

	if (!walk->in_ecs || walk->part.len <= 33 || !is_hex(walk->parent, 32))
		return false;
	rest.text += 33;
	rest.len -= 33;
	if (memcmp(walk->part.text, walk->parent.text, 32) != 0 || walk->part.text[32] != '-' || !is_of(rest, DIGITS) ||
	    rest.len > 20)
		return false;
	found_id(walk, "", walk->part);
	return true;
}

static bool is_name(struct part part)
{
	if (part.len > NAME_BYTES_MAX)
		return false;
	for (size_t i = 0; i < part.len; i++) {
		if ((unsigned char)part.text[i] <= ' ' || part.text[i] == 0x7f)
			return false;
	}
	return part.len > 0;
}

/* The monitor's directories (lxc.monitor.NAME) are not in the container. */
static bool find_lxc(struct walk *walk)
{
	struct part name = walk->part;
	bool is_flat = take_prefix(&name, "lxc.payload.");

	if (!is_flat && !is_text(walk->parent, "lxc.payload") && !(is_text(walk->parent, "lxc") && !walk->grandparent.len))
		return false;
	if (!is_name(name))
		return false;
	found_name(walk, "lxc", name);
	return true;
}

/* systemd writes a byte that may not stand in a unit's name as "\xHH". */
static size_t unescape(struct part part, char *out, size_t size)
{
	size_t len = 0;

	for (size_t i = 0; i < part.len; i++) {
		const char *high = NULL, *low = NULL;
		if (part.len - i >= 4 && part.text[i] == '\\' && part.text[i + 1] == 'x') {
			high = part.text[i + 2] ? strchr(LOWER_HEX, part.text[i + 2]) : NULL;
			low = part.text[i + 3] ? strchr(LOWER_HEX, part.text[i + 3]) : NULL;
		}
		if (len + 1 >= size)
			return 0;
		if (high && low) {
			out[len++] = (char)((high - (const char *)LOWER_HEX) << 4 | (low - (const char *)LOWER_HEX));
			i += 3;
		} else {
			out[len++] = part.text[i];
		}
	}
	return len;
}

/* A machine's directory holds "payload" (the container) and "supervisor" (systemd-nspawn itself); that of a virtual machine
 * has the same name and neither. */
static bool find_nspawn(struct walk *walk)
{
	char name[CONTEXT_UNIT_MAX];
	struct part machine = walk->parent;

	if (!is_text(walk->part, "payload"))
		return false;
	if (!(take_prefix(&machine, "machine-") && take_suffix(&machine, ".scope"))) {
		machine = walk->parent;
		if (!(take_prefix(&machine, "systemd-nspawn@") && take_suffix(&machine, ".service")))
			return false;
	}
	size_t len = unescape(machine, name, sizeof(name));
	if (!is_name((struct part){name, len}))
		return false;
	found_name(walk, "systemd-nspawn", (struct part){name, len});
	return true;
}

/* ---- pods ---- */

/* 8-4-4-4-12 hex digits with `dash` between, or 32 of a static pod. */
static bool is_uid(struct part part, char dash)
{
	if (part.len == 32)
		return is_hex(part, 32);
	for (size_t i = 0; i < part.len && part.len == 36; i++) {
		bool at_dash = i == 8 || i == 13 || i == 18 || i == 23;
		if (at_dash ? part.text[i] != dash : !part.text[i] || !strchr(LOWER_HEX, part.text[i]))
			return false;
	}
	return part.len == 36;
}

static void found_pod(struct walk *walk, struct part uid)
{
	char *out = walk->ret->pod_uid;

	forget_container(walk->ret);
	set(out, sizeof(walk->ret->pod_uid), uid);
	for (; *out; out++) {
		if (*out == '_')
			*out = '-';
	}
}

/* "kubepods", or with the parent's name before it: "kubelet-kubepods" */
static bool is_kubepods(struct part part)
{
	return take_suffix(&part, "kubepods") && (!part.len || part.text[part.len - 1] == '-');
}

/* "[PREFIX-]kubepods[-burstable|-besteffort]-podUID.slice" */
static bool find_pod_slice(struct walk *walk, struct part slice)
{
	struct part uid = slice;

	if (!take_suffix(&uid, ".slice"))
		return false;
	for (size_t len = 32; len <= 36; len += 4) {
		if (uid.len < len)
			continue;
		struct part tail = {uid.text + uid.len - len, len}, head = {uid.text, uid.len - len};
		if (!is_uid(tail, '_') || !take_suffix(&head, "-pod"))
			continue;
		if (!take_suffix(&head, "-burstable"))
			take_suffix(&head, "-besteffort");
		if (!is_kubepods(head))
			continue;
		found_pod(walk, tail);
		return true;
	}
	return false;
}

/* "podUID" below "kubepods" or its classes */
static bool find_pod_directory(struct walk *walk)
{
	struct part uid = walk->part, parent = walk->parent;

	if (!take_prefix(&uid, "pod") || !is_uid(uid, '-'))
		return false;
	if (is_text(parent, "burstable") || is_text(parent, "besteffort"))
		parent = walk->grandparent;
	if (!is_text(parent, "kubepods"))
		return false;
	found_pod(walk, uid);
	return true;
}

/* ---- units ---- */

/* A running unit: letters that systemd allows, something before the suffix, an instance if it is a template's. */
static bool is_unit(struct part part, const char *suffix)
{
	struct part name = part;

	if (!take_suffix(&name, suffix) || !is_of(name, UNIT_LETTERS) || part.len > NAME_BYTES_MAX)
		return false;
	return name.text[0] != '@' && name.text[name.len - 1] != '@';
}

static bool is_any_unit(struct part part)
{
	static const char *const suffixes[] = {".service", ".scope", ".socket", ".mount", ".swap"};

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
		if (is_unit(part, suffixes[i]))
			return true;
	}
	return false;
}

static bool is_user_manager(struct part part)
{
	return take_prefix(&part, "user@") && take_suffix(&part, ".service") && is_of(part, DIGITS);
}

/* Before the first slice or unit of a tree. */
static void begin_tree(struct walk *walk)
{
	struct context *ret = walk->ret;

	if (walk->in_inner)
		ret->unit[0] = ret->slice[0] = ret->user_unit[0] = ret->user_slice[0] = 0;
	walk->in_inner = false;
}

static void find_unit(struct walk *walk)
{
	struct context *ret = walk->ret;
	struct part part = walk->part;
	bool is_user = walk->manager == MANAGER_USER_SLICES;

	if (walk->manager == MANAGER_DONE || (walk->in_inner && is_text(part, "ns"))) /* LXC puts one between */
		return;
	if (part.len > 1 && part.text[0] == '_') { /* systemd's escape for names that collide with the kernel's files */
		part.text++;
		part.len--;
	}
	if (is_unit(part, ".slice")) {
		begin_tree(walk);
		set(is_user ? ret->user_slice : ret->slice, CONTEXT_UNIT_MAX, part);
		return;
	}
	walk->manager = MANAGER_DONE;
	if (!is_any_unit(part))
		return;
	begin_tree(walk);
	set(is_user ? ret->user_unit : ret->unit, CONTEXT_UNIT_MAX, part);
	if (!is_user && is_user_manager(part)) {
		walk->manager = MANAGER_USER_SLICES;
		walk->in_user = true;
	}
}

/* ---- the walk ---- */

static void step(struct walk *walk)
{
	struct part slice;

	/* First the unit, of whoever manages the tree outside; then the container, which begins a tree of its own. */
	find_unit(walk);
	if (is_text(walk->part, "ecs") && !walk->parent.len)
		walk->in_ecs = true;
	if (find_prefixed(walk) || find_ecs(walk) || find_lxc(walk) || find_nspawn(walk) || find_pod_directory(walk) ||
	    find_pod_slice(walk, walk->part))
		return;
	if (is_hex(walk->part, ID_DIGITS)) {
		found_id(walk, walk->in_ecs ? "docker" : runtime_of_parent(walk), walk->part);
	} else if (find_colons(walk, &slice)) {
		struct walk pod = *walk;
		struct context ignored = {0};
		pod.ret = &ignored;
		if (find_pod_slice(&pod, slice))
			snprintf(walk->ret->pod_uid, sizeof(walk->ret->pod_uid), "%s", ignored.pod_uid);
	}
}

void context_of_cgroup(const char *path, struct context *ret)
{
	struct walk walk = {.ret = ret};

	*ret = (struct context){0};
	for (const char *at = path; *at;) {
		size_t len = strcspn(at, "/");
		if (len) {
			walk.part = (struct part){at, len};
			step(&walk);
			walk.grandparent = walk.parent;
			walk.parent = walk.part;
		}
		at += len + (at[len] == '/');
	}
}
