// SPDX-License-Identifier: Apache-2.0
// vcs.v1: source code from repositories on the server. What is found, under which names; and that nothing else is, however it is asked for.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { startServer, request, temporaryDirectory, test, finish, uses, skip } from '../harness.mjs';

if (!uses('git')) {
	skip('source code from repositories', 'git is not installed');
	finish();
}
const directory = temporaryDirectory(),
	root = `${directory}/git`;
const env = {
	PATH: process.env.PATH,
	HOME: directory,
	GIT_CONFIG_NOSYSTEM: '1',
	GIT_AUTHOR_NAME: 'Ada ä Lovelace',
	GIT_AUTHOR_EMAIL: 'ada@example.org',
	GIT_AUTHOR_DATE: '2024-03-01T12:30:45-03:30',
	GIT_COMMITTER_NAME: 'c',
	GIT_COMMITTER_EMAIL: 'c@example.org',
};
const git = (cwd, ...args) => {
	const { status, stdout, stderr } = spawnSync('git', args, { cwd, env, encoding: 'utf8' });
	assert.equal(status, 0, `git ${args.join(' ')}: ${stderr}`);
	return stdout.trim();
};
const put = (path, text) => {
	mkdirSync(path.replace(/\/[^/]*$/, ''), { recursive: true });
	writeFileSync(path, text);
};
// A working tree at HOST/OWNER/NAME, a bare one at OWNER/NAME.git, and what lies outside.
const shop = `${root}/git.example.org/acme/shop`;
const first = { 'main.go': 'package main // 1\n', 'pkg/cart/cart.go': 'package cart // 1\n', 'module/pkg/cart/cart.go': 'package cart // module\n', 'ä b.txt': 'odd\n' };
for (const [path, text] of Object.entries(first)) put(`${shop}/${path}`, text);
writeFileSync(`${directory}/secret`, 'secret');
symlinkSync(`${directory}/secret`, `${shop}/link.go`);
writeFileSync(`${shop}/large.bin`, Buffer.alloc(5 << 20));
git(shop, 'init', '-q', '-b', 'main');
git(shop, 'add', '-A');
git(shop, 'commit', '-q', '-m', 'First: a subject\n\nAnd a body with ä.');
const one = git(shop, 'rev-parse', 'HEAD');
git(shop, 'tag', 'v1');
put(`${shop}/main.go`, 'package main // 2\n');
git(shop, 'commit', '-q', '-am', 'Second');
git(shop, 'branch', 'feature/x');
const two = git(shop, 'rev-parse', 'HEAD');
put(`${shop}/main.go`, 'not committed\n');
git(directory, 'clone', '-q', '--bare', shop, `${root}/acme/other.git`);
git(directory, 'clone', '-q', '--bare', shop, `${directory}/outside.git`);
symlinkSync(`${directory}/outside.git`, `${root}/acme/escape`);
git(directory, 'clone', '-q', shop, `${root}/acme/gitfile`);
renameSync(`${root}/acme/gitfile/.git`, `${directory}/moved`);
writeFileSync(`${root}/acme/gitfile/.git`, `gitdir: ${directory}/moved\n`);
mkdirSync(`${root}/acme/plain`);
// What its configuration names must not be run.
for (const [key, value] of [
	['core.fsmonitor', `touch ${directory}/ran; false`],
	['gpg.program', `${directory}/gpg`],
	['log.showSignature', 'true'],
	['core.pager', `touch ${directory}/ran`],
	['filter.evil.smudge', `touch ${directory}/ran`],
])
	git(`${root}/acme/other.git`, 'config', key, value);

const URL = 'https://git.example.org/acme/shop';
const config = `${directory}/wick.yaml`;
writeFileSync(config, `vcs: {directory: ${root}}\n`);
const server = await startServer(`${directory}/data`, ['--config', config]);
async function call(method, message, port = server.port) {
	const response = await request(port, 'POST', `/vcs.v1.VCSService/${method}`, { body: Buffer.from(JSON.stringify(message)), headers: { 'content-type': 'application/json' } });
	return { status: response.status, ...JSON.parse(response.body) };
}
const file = async (message) => {
	const { status, content, ...rest } = await call('GetFile', { repositoryURL: URL, ...message });
	return status === 200 ? { text: Buffer.from(content ?? '', 'base64').toString(), ...rest } : { status, ...rest };
};

await test('files of a commit, a tag, a branch, HEAD', async () => {
	for (const [ref, sha, text] of [
		[one, one, 'package main // 1\n'],
		[one.slice(0, 10), one, 'package main // 1\n'],
		['v1', one, 'package main // 1\n'],
		['tags/v1', one, 'package main // 1\n'],
		['main', two, 'package main // 2\n'],
		['heads/main', two, 'package main // 2\n'],
		['feature/x', two, 'package main // 2\n'],
		['', two, 'package main // 2\n'],
	])
		assert.deepEqual(await file({ ref, localPath: 'main.go' }), { text, URL: `${URL}/blob/${sha}/main.go` }, ref);
});
await test('paths as symbols have them', async () => {
	for (const [localPath, rootPath, found] of [
		['pkg/cart/cart.go', '', 'pkg/cart/cart.go'],
		['/build/work/shop/pkg/cart/cart.go', '', 'pkg/cart/cart.go'],
		['git.example.org/acme/shop/pkg/cart/cart.go', '', 'pkg/cart/cart.go'],
		['/home/x/go/src/git.example.org/acme/shop/main.go', '', 'main.go'],
		['pkg/cart/cart.go', 'module', 'module/pkg/cart/cart.go'],
		['git.example.org/acme/shop/pkg/cart/cart.go', '/module/', 'module/pkg/cart/cart.go'],
		['ä b.txt', '', 'ä b.txt'],
	]) {
		const { text, URL: url } = await file({ ref: 'v1', localPath, rootPath });
		assert.equal(text, first[found], localPath);
		assert.equal(url, `${URL}/blob/${one}/${found}`);
	}
	assert.equal((await file({ ref: 'v1', localPath: 'none.go' })).code, 'not_found');
	assert.equal((await file({ ref: 'v1', localPath: 'main.go', rootPath: 'module' })).code, 'not_found');
	assert.equal((await file({ ref: 'v1', localPath: 'pkg/cart' })).code, 'not_found', 'a directory');
});
await test('repositories by the end of their URL, bare or not', async () => {
	for (const repositoryURL of ['https://anywhere.example/acme/other', 'https://x:1234/acme/other.git', 'git@x.example:acme/other.git', 'acme/other', `${URL}.git`, `${URL}/`])
		assert.equal((await file({ repositoryURL, ref: 'v1', localPath: 'main.go' })).text, first['main.go'], repositoryURL);
	for (const repositoryURL of ['https://x.example/acme/none', 'https://x.example/acme/plain'])
		assert.equal((await file({ repositoryURL, ref: 'v1', localPath: 'main.go' })).code, 'not_found', repositoryURL);
});
await test('nothing outside: URLs, links, paths, names of commits', async () => {
	for (const repositoryURL of ['', '..', '../..', '/etc', 'file:///etc/passwd', 'https://x/../../outside', 'https://x/a/./b', 'https://x/.git', 'acme/other/../..', 'ext::sh -c id', 'a'.repeat(5000), 'a/b/c/d/e/f/g/h/i/j', 'acme/other\u0001'])
		assert.ok(['invalid_argument', 'not_found'].includes((await file({ repositoryURL, ref: 'v1', localPath: 'main.go' })).code), repositoryURL);
	assert.equal((await file({ repositoryURL: 'https://x/acme/escape', ref: 'v1', localPath: 'main.go' })).code, 'permission_denied');
	const moved = await file({ repositoryURL: 'https://x/acme/gitfile', ref: 'v1', localPath: 'main.go' });
	assert.ok(['not_found', 'permission_denied'].includes(moved.code), 'a .git that is a file');
	for (const localPath of ['', '/', '..', '../../secret', '/etc/passwd', 'link.go', '.git/config', 'HEAD', ':(top)main.go', '*.go', 'main.go/', 'x/../main.g', `${'a/'.repeat(600)}main.go`]) {
		const response = await file({ ref: 'v1', localPath });
		assert.ok(['invalid_argument', 'not_found'].includes(response.code), `${localPath}: ${JSON.stringify(response)}`);
	}
	assert.equal((await file({ ref: 'v1', localPath: 'main.go', rootPath: '../..' })).code, 'invalid_argument');
	for (const ref of ['--help', '-x', 'a..b', 'HEAD^', 'HEAD~1', 'main:main.go', '@{0}', 'main@{1}', 'x y', 'x\ny', 'r'.repeat(300), '$(id)', '^main'])
		assert.equal((await file({ ref, localPath: 'main.go' })).code, 'invalid_argument', ref);
	assert.equal((await file({ ref: 'f'.repeat(40), localPath: 'main.go' })).code, 'not_found');
	const large = await file({ ref: 'v1', localPath: 'large.bin' });
	assert.deepEqual([large.code, /limit/.test(large.message)], ['resource_exhausted', true]);
	const ran = spawnSync('test', ['-e', `${directory}/ran`]);
	assert.equal(ran.status, 1, 'a program of the configuration has run');
});
await test('commits', async () => {
	const { status, ...found } = await call('GetCommit', { repositoryURL: URL, ref: 'v1' });
	assert.deepEqual(found, {
		message: 'First: a subject\n\nAnd a body with ä.',
		author: { login: 'Ada ä Lovelace' },
		date: '2024-03-01T12:30:45-03:30',
		sha: one,
		URL: `${URL}/commit/${one}`,
	});
	const { commits } = await call('GetCommits', { repositoryUrl: URL, refs: ['main', 'none', one, '--all'] });
	assert.deepEqual(
		commits.map((c) => c.sha),
		[two, one],
	);
	assert.deepEqual(await call('GetCommits', { repository_url: URL, refs: [] }), { status: 200 });
	assert.equal((await call('GetCommits', { repositoryUrl: URL, refs: ['none'] })).code, 'not_found');
	assert.equal((await call('GetCommits', { repositoryUrl: URL, refs: Array(101).fill('main') })).code, 'invalid_argument');
});
await test('many at a time', async () => {
	const texts = await Promise.all(Array.from({ length: 24 }, (_, i) => file({ ref: i % 2 ? 'v1' : 'main', localPath: 'main.go' })));
	texts.forEach((found, i) => assert.equal(found.text, i % 2 ? 'package main // 1\n' : 'package main // 2\n', JSON.stringify(found)));
});
await test('without the setting, and for GitHub', async () => {
	for (const method of ['GithubApp', 'GithubLogin', 'GithubRefresh']) assert.equal((await call(method, {})).code, 'unimplemented');
	const plain = await startServer(`${directory}/plain`);
	for (const method of ['GetFile', 'GetCommit', 'GetCommits']) {
		const { code, message } = await call(method, { repositoryURL: URL, ref: 'v1', localPath: 'main.go' }, plain.port);
		assert.deepEqual([code, /vcs\.directory/.test(message)], ['unimplemented', true]);
	}
	await plain.stop();
});
await server.stop();
finish();
