// SPDX-License-Identifier: Apache-2.0
/* Paths of control groups as programs make them, and paths that only look like them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/process/context.h"

#define A	  "3f4e1c9d7a5b2086f1e0d9c8b7a695847362514039281706f5e4d3c2b1a09f8e"
#define B	  "0011223344556677889900aabbccddeeff0123456789abcdef0123456789abcd"
#define UID	  "6d3f2a10-9c4b-4e8a-b7d5-0f1e2d3c4b5a"
#define UID_	  "6d3f2a10_9c4b_4e8a_b7d5_0f1e2d3c4b5a"
#define TASK	  "0cc2d5b9f4a94f6e8f1b0d3c7a6e5f41"
#define USER	  "/user.slice/user-1000.slice/user@1000.service"
#define OF_USER	  .unit = "user@1000.service", .slice = "user-1000.slice"
#define IN_DOCKER .container_id = A, .container_runtime = "docker"

struct vector {
	const char *path;
	struct context expected;
};

static const struct vector containers[] = {
	/* docker */
	{"/docker/" A, {IN_DOCKER}},
	{"/docker/" A "/init", {IN_DOCKER}},
	{"/system.slice/docker-" A ".scope", {IN_DOCKER, .unit = "docker-" A ".scope", .slice = "system.slice"}},
	{USER "/user.slice/docker-" A ".scope",
	 {IN_DOCKER, OF_USER, .user_unit = "docker-" A ".scope", .user_slice = "user.slice"}},
	{"/actions_job/" A, {.container_id = A}}, /* --cgroup-parent */
	{"/docker/" A "/docker/" B, {.container_id = B, .container_runtime = "docker"}},
	{"/docker/buildkit/i2rqjr5rgx2a1xb6r9k5c4lqf", {.unit = ""}},
	{"/system.slice/docker.service", {.unit = "docker.service", .slice = "system.slice"}},
	/* containerd without Kubernetes */
	{"/default/" A, {.container_id = A, .container_runtime = "containerd"}},
	{"/k8s.io/" A, {.container_id = A, .container_runtime = "containerd"}},
	{"/system.slice/nerdctl-" A ".scope",
	 {.container_id = A, .container_runtime = "containerd", .unit = "nerdctl-" A ".scope", .slice = "system.slice"}},
	{USER "/user.slice/nerdctl-" A ".scope",
	 {.container_id = A,
	  .container_runtime = "containerd",
	  OF_USER,
	  .user_unit = "nerdctl-" A ".scope",
	  .user_slice = "user.slice"}},
	{"/default/redis", {.unit = ""}}, /* ctr run with a name: no telling */
	/* podman */
	{"/machine.slice/libpod-" A ".scope",
	 {.container_id = A, .container_runtime = "podman", .unit = "libpod-" A ".scope", .slice = "machine.slice"}},
	{"/machine.slice/libpod-" A ".scope/container",
	 {.container_id = A, .container_runtime = "podman", .unit = "libpod-" A ".scope", .slice = "machine.slice"}},
	{"/machine.slice/machine-libpod_pod_" B ".slice/libpod-" A ".scope/container",
	 {.container_id = A,
	  .container_runtime = "podman",
	  .unit = "libpod-" A ".scope",
	  .slice = "machine-libpod_pod_" B ".slice"}},
	{USER "/user.slice/libpod-" A ".scope/container",
	 {.container_id = A,
	  .container_runtime = "podman",
	  OF_USER,
	  .user_unit = "libpod-" A ".scope",
	  .user_slice = "user.slice"}},
	{USER "/user.slice/user-libpod_pod_" B ".slice/libpod-" A ".scope",
	 {.container_id = A,
	  .container_runtime = "podman",
	  OF_USER,
	  .user_unit = "libpod-" A ".scope",
	  .user_slice = "user-libpod_pod_" B ".slice"}},
	{"/libpod_parent/libpod-" A, {.container_id = A, .container_runtime = "podman"}},
	{"/libpod_parent/libpod-" A "/ctr", {.container_id = A, .container_runtime = "podman"}},
	{"/system.slice/web.service/libpod-payload-" A,
	 {.container_id = A, .container_runtime = "podman", .unit = "web.service", .slice = "system.slice"}},
	{"/system.slice/web.service/runtime", {.unit = "web.service", .slice = "system.slice"}},
	{"/machine.slice/libpod-conmon-" A ".scope", {.unit = "libpod-conmon-" A ".scope", .slice = "machine.slice"}},
	/* ECS */
	{"/ecs/" TASK "/" A, {IN_DOCKER}},
	{"/ecs/production/" TASK "/" A, {IN_DOCKER}},
	{"/ecs/5a081c13-b8cf-4801-b427-9f4601742204/" A, {IN_DOCKER}},
	{"/ecs/" TASK "/" TASK "-2531612879", {.container_id = TASK "-2531612879"}},
	{"/ecs/" TASK, {.unit = ""}},
	{"/ecstasks.slice/ecstasks-" TASK ".slice/docker-" A ".scope",
	 {IN_DOCKER, .unit = "docker-" A ".scope", .slice = "ecstasks-" TASK ".slice"}},
	/* LXC, Proxmox, LXD */
	{"/lxc/web", {.container_name = "web", .container_runtime = "lxc"}},
	{"/lxc.payload/web", {.container_name = "web", .container_runtime = "lxc"}},
	{"/lxc.payload.web", {.container_name = "web", .container_runtime = "lxc"}},
	{"/lxc.payload.web/system.slice/nginx.service",
	 {.container_name = "web", .container_runtime = "lxc", .unit = "nginx.service", .slice = "system.slice"}},
	{"/lxc/101/ns/system.slice/ssh.service",
	 {.container_name = "101", .container_runtime = "lxc", .unit = "ssh.service", .slice = "system.slice"}},
	{"/lxc/101/ns/init.scope", {.container_name = "101", .container_runtime = "lxc", .unit = "init.scope"}},
	{"/lxc.payload.web/docker/" A, {IN_DOCKER}},
	{"/lxc.monitor.web", {.unit = ""}},
	{"/lxc.monitor/web", {.unit = ""}},
	/* systemd-nspawn */
	{"/machine.slice/systemd-nspawn@web.service/payload",
	 {.container_name = "web",
	  .container_runtime = "systemd-nspawn",
	  .unit = "systemd-nspawn@web.service",
	  .slice = "machine.slice"}},
	{"/machine.slice/machine-build\\x2dbox.scope/payload/system.slice/cron.service",
	 {.container_name = "build-box",
	  .container_runtime = "systemd-nspawn",
	  .unit = "cron.service",
	  .slice = "system.slice"}},
	{"/machine.slice/machine-web.scope/supervisor", {.unit = "machine-web.scope", .slice = "machine.slice"}},
	{"/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt/emulator",
	 {.unit = "machine-qemu\\x2d1\\x2dvm.scope", .slice = "machine.slice"}},
	/* a container that runs systemd */
	{"/system.slice/docker-" A ".scope/system.slice/nginx.service",
	 {IN_DOCKER, .unit = "nginx.service", .slice = "system.slice"}},
	{"/system.slice/docker-" A ".scope/init.scope", {IN_DOCKER, .unit = "init.scope"}},
};

#define KUBE_SLICE "kubepods-burstable-pod" UID_ ".slice"
#define KUBE	   "/kubepods.slice/kubepods-burstable.slice/" KUBE_SLICE
static const struct vector pods[] = {
	{"/kubepods/burstable/pod" UID "/" A, {.container_id = A, .pod_uid = UID}},
	{"/kubepods/besteffort/pod" UID "/" A, {.container_id = A, .pod_uid = UID}},
	{"/kubepods/pod" UID "/" A, {.container_id = A, .pod_uid = UID}},
	{"/kubepods/pod" TASK "/" A, {.container_id = A, .pod_uid = TASK}}, /* a static pod */
	{"/kubepods/burstable/pod" UID, {.pod_uid = UID}},
	{"/kubepods/burstable/pod" UID "/crio-" A, {.container_id = A, .container_runtime = "cri-o", .pod_uid = UID}},
	{"/kubepods/burstable/pod" UID "/crio-conmon-" A, {.pod_uid = UID}},
	{KUBE "/cri-containerd-" A ".scope",
	 {.container_id = A,
	  .container_runtime = "containerd",
	  .pod_uid = UID,
	  .unit = "cri-containerd-" A ".scope",
	  .slice = KUBE_SLICE}},
	{KUBE "/docker-" A ".scope", {IN_DOCKER, .pod_uid = UID, .unit = "docker-" A ".scope", .slice = KUBE_SLICE}},
	{KUBE "/crio-" A ".scope/container",
	 {.container_id = A, .container_runtime = "cri-o", .pod_uid = UID, .unit = "crio-" A ".scope", .slice = KUBE_SLICE}},
	{KUBE "/crio-conmon-" A ".scope", {.pod_uid = UID, .unit = "crio-conmon-" A ".scope", .slice = KUBE_SLICE}},
	{"/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" A ".scope",
	 {.container_id = A,
	  .container_runtime = "containerd",
	  .pod_uid = UID,
	  .unit = "cri-containerd-" A ".scope",
	  .slice = "kubepods-pod" UID_ ".slice"}},
	{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" TASK ".slice/crio-" A ".scope",
	 {.container_id = A,
	  .container_runtime = "cri-o",
	  .pod_uid = TASK,
	  .unit = "crio-" A ".scope",
	  .slice = "kubepods-besteffort-pod" TASK ".slice"}},
	{"/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" A,
	 {.container_id = A,
	  .container_runtime = "containerd",
	  .pod_uid = UID,
	  .unit = "containerd.service",
	  .slice = "system.slice"}},
	{"/system.slice/kubelet.service/system.slice:docker:" A,
	 {IN_DOCKER, .unit = "kubelet.service", .slice = "system.slice"}},
	/* k3d, kind, minikube: nodes are containers */
	{"/docker/" B "/kubepods/burstable/pod" UID "/" A, {.container_id = A, .pod_uid = UID}},
	{"/docker/" B "/kubelet/kubepods/besteffort/pod" UID "/" A, {.container_id = A, .pod_uid = UID}},
	{"/docker/" B
	 "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" UID_
	 ".slice/cri-containerd-" A ".scope",
	 {.container_id = A,
	  .container_runtime = "containerd",
	  .pod_uid = UID,
	  .unit = "cri-containerd-" A ".scope",
	  .slice = "kubelet-kubepods-besteffort-pod" UID_ ".slice"}},
	{"/system.slice/docker-" B ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_
	 ".slice/cri-containerd-" A ".scope",
	 {.container_id = A,
	  .container_runtime = "containerd",
	  .pod_uid = UID,
	  .unit = "cri-containerd-" A ".scope",
	  .slice = "kubelet-kubepods-pod" UID_ ".slice"}},
	{"/docker/" B "/system.slice/containerd.service",
	 {.container_id = B, .container_runtime = "docker", .unit = "containerd.service", .slice = "system.slice"}},
	{USER "/app.slice/k3s-rootless.service/kubepods/burstable/pod" UID "/" A,
	 {.container_id = A, .pod_uid = UID, OF_USER, .user_unit = "k3s-rootless.service", .user_slice = "app.slice"}},
	/* docker in a pod */
	{"/kubepods/burstable/pod" UID "/" A "/docker/" B, {.container_id = B, .container_runtime = "docker", .pod_uid = UID}},
};

static const struct vector units[] = {
	{"/", {.unit = ""}},
	{"", {.unit = ""}},
	{"/init.scope", {.unit = "init.scope"}},
	{"/system.slice/ssh.service", {.unit = "ssh.service", .slice = "system.slice"}},
	{"/system.slice/ssh.service/worker", {.unit = "ssh.service", .slice = "system.slice"}},
	{"/system.slice/system-getty.slice/getty@tty1.service", {.unit = "getty@tty1.service", .slice = "system-getty.slice"}},
	{"/system.slice/system-postgresql.slice/postgresql@15-main.service",
	 {.unit = "postgresql@15-main.service", .slice = "system-postgresql.slice"}},
	{"/system.slice", {.slice = "system.slice"}},
	{"/system.slice/dev-hugepages.mount", {.unit = "dev-hugepages.mount", .slice = "system.slice"}},
	{"/system.slice/_cpu.service", {.unit = "cpu.service", .slice = "system.slice"}},
	{"/user.slice/user-1000.slice/session-3.scope", {.unit = "session-3.scope", .slice = "user-1000.slice"}},
	{USER "/init.scope", {OF_USER, .user_unit = "init.scope"}},
	{USER "/app.slice/foo.service", {OF_USER, .user_unit = "foo.service", .user_slice = "app.slice"}},
	{USER "/app.slice/app-org.gnome.Terminal.slice/vte-spawn-1.scope",
	 {OF_USER, .user_unit = "vte-spawn-1.scope", .user_slice = "app-org.gnome.Terminal.slice"}},
	{USER "/background.slice", {OF_USER, .user_slice = "background.slice"}},
	{"/user/1000.user/1.session", {.unit = ""}}, /* systemd 204 and older */
};

/* What a user with a directory of his own may make, and what is one letter off. */
static const struct vector imitations[] = {
	{"/docker/3f4e1c9d7a5b", {.unit = ""}},
	{"/docker/" A "0", {.unit = ""}},
	{"/docker/3F4E1C9D7A5B2086F1E0D9C8B7A695847362514039281706F5E4D3C2B1A09F8E", {.unit = ""}},
	{"/docker/x" A, {.unit = ""}},
	{"/system.slice/my-docker-" A ".scope", {.unit = "my-docker-" A ".scope", .slice = "system.slice"}},
	{"/system.slice/docker-" A ".service", {.unit = "docker-" A ".service", .slice = "system.slice"}},
	{"/system.slice/docker-" A ".scope.d", {.slice = "system.slice"}},
	{"/docker-" A, {.unit = ""}},
	{"/kubepods/burstable/pod" UID "x/docker", {.unit = ""}},
	{"/kubepods/burstable/pod" UID_ "/x", {.unit = ""}},
	{"/kubepods/burstable/podx/" A, {.container_id = A}},
	{"/burstable/pod" UID "/x", {.unit = ""}},
	{"/home/pod" UID, {.unit = ""}},
	{"/kubepods-burstable-pod" UID_ ".slicer", {.unit = ""}},
	{"/mykubepods-pod" UID_ ".slice", {.slice = "mykubepods-pod" UID_ ".slice"}},
	{"/x.slice/kubepods-pod" UID_ "-x.slice", {.slice = "kubepods-pod" UID_ "-x.slice"}},
	{"/:cri-containerd:" A, {.unit = ""}},
	{"/x:cri-containerd:" A, {.unit = ""}},
	{"/user/lxc/web", {.unit = ""}},
	{"/lxc.payload.", {.unit = ""}},
	{"/lxc.payload.a b", {.unit = ""}},
	{"/lxc", {.unit = ""}},
	{"/payload", {.unit = ""}},
	{"/machine.slice/machine-.scope/payload", {.unit = "machine-.scope", .slice = "machine.slice"}},
	{"/machine.slice/machine-a\\x0ab.scope/payload", {.unit = "machine-a\\x0ab.scope", .slice = "machine.slice"}},
	{"/ecs/" TASK "/" TASK "-x", {.unit = ""}},
	{"/ecs/" TASK "/" TASK, {.unit = ""}},
	{"/system.slice/.service", {.slice = "system.slice"}},
	{"/system.slice/a@.service", {.slice = "system.slice"}},
	{"/system.slice/@b.service", {.slice = "system.slice"}},
	{"/system.slice/a b.service", {.slice = "system.slice"}},
	{"/system.slice/a\n.service", {.slice = "system.slice"}},
	{"/user.slice/user@x.service/app.slice/a.service", {.unit = "user@x.service", .slice = "user.slice"}},
	{"/foo/system.slice/ssh.service", {.unit = ""}},
	/* all that is below user@1000.service is that user's making */
	{USER "/user.slice/docker-" A ".scope/system.slice/ssh.service",
	 {IN_DOCKER, OF_USER, .user_unit = "docker-" A ".scope", .user_slice = "user.slice"}},
	{"////", {.unit = ""}},
	{"docker/" A, {IN_DOCKER}},
	{"//docker//" A "//", {IN_DOCKER}},
};

static void compare(const char *path, const char *what, const char *got, const char *expected)
{
	if (strcmp(got, expected) != 0)
		fail_msg("%s: %s is '%s' instead of '%s'", path, what, got, expected);
}

static void check_all(const struct vector *vectors, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct vector *v = &vectors[i];
		struct context got;
		context_of_cgroup(v->path, &got);
		compare(v->path, "id", got.container_id, v->expected.container_id);
		compare(v->path, "name", got.container_name, v->expected.container_name);
		compare(v->path, "runtime", got.container_runtime, v->expected.container_runtime);
		compare(v->path, "pod", got.pod_uid, v->expected.pod_uid);
		compare(v->path, "unit", got.unit, v->expected.unit);
		compare(v->path, "slice", got.slice, v->expected.slice);
		compare(v->path, "user unit", got.user_unit, v->expected.user_unit);
		compare(v->path, "user slice", got.user_slice, v->expected.user_slice);
	}
}
#define CHECK_ALL(vectors) check_all(vectors, sizeof(vectors) / sizeof(*(vectors)))

static void test_containers(void **state)
{
	CHECK_ALL(containers);
}
static void test_pods(void **state)
{
	CHECK_ALL(pods);
}
static void test_units(void **state)
{
	CHECK_ALL(units);
}
static void test_imitations(void **state)
{
	CHECK_ALL(imitations);
}

/* Every prefix of every path, and every path with one byte changed: no crash, and an id is never cut short. */
static void check_damaged(const struct vector *vectors, size_t count)
{
	char path[1024];
	struct context got;

	for (size_t i = 0; i < count; i++) {
		size_t len = strlen(vectors[i].path);
		for (size_t at = 0; at < len; at++) {
			for (int how = 0; how < 2; how++) {
				memcpy(path, vectors[i].path, len + 1);
				path[at] = how ? '~' : 0;
				context_of_cgroup(path, &got);
				size_t id = strlen(got.container_id), uid = strlen(got.pod_uid);
				assert_true(id == 0 || (id == 64 && strspn(got.container_id, "0123456789abcdef") == 64) ||
					    (id > 33 && strncmp(got.container_id, TASK "-", 33) == 0));
				assert_true(uid == 0 || uid == 32 || uid == 36);
			}
		}
	}
}

static void test_damaged(void **state)
{
	check_damaged(containers, sizeof(containers) / sizeof(*containers));
	check_damaged(pods, sizeof(pods) / sizeof(*pods));
	check_damaged(imitations, sizeof(imitations) / sizeof(*imitations));
}

static void test_long_names(void **state)
{
	char path[8192];
	struct context got;

	memset(path, 'a', sizeof(path));
	memcpy(path, "/system.slice/", 14);
	memcpy(path + sizeof(path) - 9, ".service", 9);
	context_of_cgroup(path, &got);
	assert_string_equal(got.unit, "");
	snprintf(path, sizeof(path), "/lxc.payload.%0300d", 1);
	context_of_cgroup(path, &got);
	assert_string_equal(got.container_name, "");
	memset(path, 'a', 256);
	memcpy(path, "/", 1);
	memcpy(path + 256 - 8, ".service", 9); /* 255 letters, systemd's limit */
	context_of_cgroup(path, &got);
	assert_int_equal(strlen(got.unit), 255);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_containers), cmocka_unit_test(test_pods),	   cmocka_unit_test(test_units),
		cmocka_unit_test(test_imitations), cmocka_unit_test(test_damaged), cmocka_unit_test(test_long_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
