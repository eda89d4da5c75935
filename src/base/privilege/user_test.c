// SPDX-License-Identifier: Apache-2.0
/* Needs root, for giving files away. */
#include "base/privilege/user.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define UID 54321

static const char *const names[] = {"lock", "*.block", NULL};
static const struct user somebody = {.uid = UID, .gid = UID, .name = "54321"};
static char root[64];

static const char *at(const char *name)
{
	static char paths[4][256];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
	return path;
}

static void touch(const char *name)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static uid_t owner_of(const char *name)
{
	struct stat status;
	assert_int_equal(lstat(at(name), &status), 0);
	return status.st_uid;
}

static int setup(void **state)
{
	snprintf(root, sizeof(root), "/tmp/wick-user-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

/* Which paths others than root can lead elsewhere. */
static void test_ways(void **state)
{
	char up[300];
	(void)state;
	assert_int_equal(mkdir(at("mine"), 0755), 0);
	assert_int_equal(mkdir(at("theirs"), 0755), 0);
	assert_int_equal(mkdir(at("open"), 0777), 0);
	assert_int_equal(chmod(at("open"), 0777), 0);
	assert_int_equal(mkdir(at("shared"), 0777), 0);
	assert_int_equal(chmod(at("shared"), 01777), 0);
	touch("mine/file");
	touch("theirs/file");
	touch("open/file");
	touch("shared/file");
	touch("shared/other");
	assert_int_equal(chown(at("theirs"), UID, UID), 0);
	assert_int_equal(chown(at("shared/other"), UID, UID), 0);
	assert_int_equal(symlink("mine/file", at("link")), 0);
	assert_int_equal(symlink("mine", at("folder")), 0);
	assert_int_equal(symlink("theirs/file", at("astray")), 0);
	assert_int_equal(symlink(at("mine/file"), at("theirs/back")), 0);
	assert_int_equal(symlink("theirs/back", at("by")), 0);
	assert_int_equal(symlink("circle", at("circle")), 0);
	static const char *const yes[] = {"mine/file",	"link", "folder/file", "shared/file", "folder/../mine//file",
					  "mine/./file"},
				 *const no[] = {"theirs/file",	       "open/file", "shared/other", "astray",	  "by",
						"theirs/../mine/file", "circle",    "missing",	    "mine/file/x"};
	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		if (!user_only_root_decides(at(yes[i])))
			fail_msg("%s is root's", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++)
		if (user_only_root_decides(at(no[i])))
			fail_msg("%s is not root's", no[i]);
	assert_non_null(getcwd(up, sizeof(up)));
	assert_int_equal(chdir(root), 0);
	assert_true(user_only_root_decides("mine/file"));
	assert_false(user_only_root_decides("open/file"));
	assert_int_equal(chdir(up), 0);
}

static int teardown(void **state)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static int hand_over(const char *name, struct error *err)
{
	return user_hand_over(&somebody, at(name), names, err);
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip();
}

static void test_hand_over(void **state)
{
	struct error err = {0};
	struct stat status;
	need_root();
	assert_int_equal(hand_over("a/b/data", &err), 0); /* made */
	assert_int_equal(owner_of("a/b/data"), UID);
	assert_int_equal(owner_of("a/b"), 0);
	assert_int_equal(stat(at("a/b"), &status), 0);
	assert_int_equal(status.st_mode & 0777, 0755);
	touch("a/b/data/lock");
	assert_int_equal(mkdir(at("a/b/data/deep"), 0700), 0);
	touch("a/b/data/deep/file");
	assert_int_equal(hand_over("a/b/data", &err), 0);
	assert_int_equal(owner_of("a/b/data/lock"), UID);
	assert_int_equal(owner_of("a/b/data/deep/file"), UID);
	assert_int_equal(owner_of("a/b/data/deep"), UID);
}

/* A link is left alone, and so is what it leads to, whether file or directory. */
static void test_links(void **state)
{
	struct error err = {0};
	need_root();
	assert_int_equal(mkdir(at("data"), 0700), 0);
	assert_int_equal(mkdir(at("elsewhere"), 0700), 0);
	touch("data/lock");
	touch("secret");
	touch("elsewhere/secret");
	assert_int_equal(symlink("../secret", at("data/file")), 0);
	assert_int_equal(symlink("../elsewhere", at("data/directory")), 0);
	assert_int_equal(hand_over("data", &err), 0);
	assert_int_equal(owner_of("secret"), 0);
	assert_int_equal(owner_of("elsewhere"), 0);
	assert_int_equal(owner_of("elsewhere/secret"), 0);
	assert_int_equal(owner_of("data/lock"), UID);
	assert_int_equal(owner_of("data/file"), 0);
}

/* A second name that somebody else can have made: refused. One that only root can have made: given. */
static void test_second_names(void **state)
{
	struct error err = {0};
	need_root();
	assert_int_equal(mkdir(at("data"), 0700), 0);
	touch("secret");
	assert_int_equal(link(at("secret"), at("data/1.block")), 0);
	assert_int_equal(chown(at("data"), UID, UID), 0);
	assert_int_equal(hand_over("data", &err), -EPERM);
	assert_non_null(strstr(err.message, "data/1.block cannot be given to user 54321: it has a second name"));
	assert_int_equal(owner_of("secret"), 0);
	assert_int_equal(chown(at("data"), 0, 0), 0);
	assert_int_equal(chmod(at("data"), 0777), 0);
	assert_int_equal(hand_over("data", &err), -EPERM);
	assert_int_equal(owner_of("data"), 0);
	assert_int_equal(chmod(at("data"), 0700), 0);
	assert_int_equal(hand_over("data", &err), 0);
	assert_int_equal(owner_of("data/1.block"), UID);
}

static void test_not_ours(void **state)
{
	struct error err = {0};
	need_root();
	assert_int_equal(mkdir(at("etc"), 0755), 0);
	touch("etc/passwd");
	assert_int_equal(hand_over("etc", &err), -EPERM);
	assert_non_null(strstr(err.message, "nothing of wick's"));
	assert_int_equal(owner_of("etc/passwd"), 0);
	assert_int_equal(owner_of("etc"), 0);
	/* Somebody else's file among root's. */
	touch("etc/lock");
	assert_int_equal(chown(at("etc/passwd"), UID + 1, UID + 1), 0);
	assert_int_equal(hand_over("etc", &err), -EPERM);
	assert_non_null(strstr(err.message, "somebody else"));
	assert_int_equal(owner_of("etc/passwd"), UID + 1);
	assert_int_equal(owner_of("etc"), 0);
	/* A new file system's own directory is in nobody's way. */
	assert_int_equal(mkdir(at("fresh"), 0755), 0);
	assert_int_equal(mkdir(at("fresh/lost+found"), 0700), 0);
	assert_int_equal(hand_over("fresh", &err), 0);
	assert_int_equal(owner_of("fresh"), UID);
	assert_int_equal(owner_of("fresh/lost+found"), 0);
}

static bool has(cap_flag_t flag, cap_value_t capability)
{
	cap_flag_value_t value = CAP_CLEAR;
	cap_t now = cap_get_proc();
	cap_get_flag(now, capability, flag, &value);
	cap_free(now);
	return value == CAP_SET;
}

static int become(void)
{
	static const cap_value_t kept[] = {CAP_SYSLOG};
	uid_t r, e, s;
	if (user_become(&somebody, kept, 1, NULL) < 0)
		return 1;
	if (getresuid(&r, &e, &s) < 0 || r != UID || e != UID || s != UID || getgroups(0, NULL) != 0 || getegid() != UID)
		return 2;
	if (!has(CAP_EFFECTIVE, CAP_SYSLOG) || !has(CAP_PERMITTED, CAP_SYSLOG) || has(CAP_INHERITABLE, CAP_SYSLOG))
		return 3;
	for (cap_value_t capability = 0; capability <= CAP_LAST_CAP; capability++)
		if (capability != CAP_SYSLOG &&
		    (has(CAP_PERMITTED, capability) || prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1))
			return 4;
	return setuid(0) == 0 ? 5 : open("/etc/shadow", O_RDONLY) >= 0 ? 6 : 0;
}

static void test_become(void **state)
{
	int status;
	need_root();
	pid_t pid = fork();
	if (pid == 0)
		_exit(become());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_find(void **state)
{
	struct user user;
	struct error err = {0};
	assert_int_equal(user_find("root", &user, &err), 0);
	assert_int_equal(user.uid, 0);
	assert_int_equal(user_find("54321", &user, &err), 0);
	assert_int_equal(user.uid, UID);
	assert_string_equal(user.name, "54321");
	assert_int_equal(user_find("no such user", &user, &err), -ENOENT);
	assert_string_equal(err.message, "there is no user 'no such user' on this system");
	assert_int_equal(user_find("4294967295", &user, &err), -ENOENT); /* means "unchanged" to the kernel */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_hand_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links, setup, teardown),
		cmocka_unit_test_setup_teardown(test_second_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_ours, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ways, setup, teardown),
		cmocka_unit_test(test_become),
		cmocka_unit_test(test_find),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
