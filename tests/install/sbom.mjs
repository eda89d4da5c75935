// SPDX-License-Identifier: Apache-2.0
// Compares an SPDX document with the artefacts beside it: DOCUMENT FOLDER. Prints what does not fit, and fails.
import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

const [path, folder] = process.argv.slice(2);
const document = JSON.parse(readFileSync(path, 'utf8'));
const faults = [];
const expect = (holds, text) => holds || faults.push(text);
const run = (...command) => execFileSync(command[0], command.slice(1), { encoding: 'utf8', maxBuffer: 1 << 28 });
const packages = new Map(document.packages.map((entry) => [entry.SPDXID, entry]));
expect(packages.size === document.packages.length, 'two packages have the same identifier');
const related = (from, type) =>
	document.relationships
		.filter((relation) => relation.spdxElementId === from && relation.relationshipType === type)
		.map((relation) => packages.get(relation.relatedSpdxElement));
const commit = run('git', 'rev-parse', 'HEAD').trim();
const time = new Date(1000 * Number(run('git', 'log', '-1', '--format=%ct'))).toISOString().replace('.000', '');
if (!process.env.WICK_DIST) {
	expect(document.documentNamespace.endsWith(`${basename(path, '.spdx.json')}-${commit}`), 'the name space is not of this commit: ./dev dist');
	expect(document.creationInfo.created === time, `created ${document.creationInfo.created}, the commit is of ${time}`);
}

const lock = JSON.parse(readFileSync('web/package-lock.json', 'utf8'));
const bundled = Object.entries(lock.packages).filter(([name, entry]) => name && !entry.dev && !entry.devOptional && !entry.optional);
expect(bundled.length >= 4, 'the lock file has no packages');

for (const artefact of related('SPDXRef-DOCUMENT', 'DESCRIBES')) {
	const file = artefact.packageFileName;
	const bytes = readFileSync(join(folder, file));
	expect(artefact.checksums[0].checksumValue === createHash('sha256').update(bytes).digest('hex'), `${file} has another checksum`);
	const linked = related(artefact.SPDXID, 'STATIC_LINK');
	if (/^wick[_-][0-9]/.test(file)) {
		const contents = related(artefact.SPDXID, 'CONTAINS');
		for (const [name, entry] of bundled) {
			const found = contents.find((content) => `node_modules/${content.name}` === name && content.versionInfo === entry.version);
			const digest = Buffer.from(entry.integrity.replace('sha512-', ''), 'base64').toString('hex');
			expect(found?.checksums?.[0].checksumValue === digest, `${file}: ${name} ${entry.version} is missing or has another checksum`);
		}
		const llhttp = contents.find((content) => content.name === 'llhttp');
		const parser = readFileSync('third_party/llhttp/llhttp.h', 'utf8');
		const part = (name) => new RegExp(`LLHTTP_VERSION_${name} (\\d+)`).exec(parser)[1];
		expect(llhttp?.versionInfo === ['MAJOR', 'MINOR', 'PATCH'].map(part).join('.'), `${file}: llhttp has another version`);
		for (const entry of linked) {
			const version = run('dpkg-query', '-W', '-f', '${Version}', entry.name);
			expect(entry.versionInfo === version, `${file}: ${entry.name} ${entry.versionInfo}, installed is ${version}`);
			expect(entry.licenseDeclared !== 'NOASSERTION' && entry.supplier !== 'NOASSERTION', `${file}: ${entry.name} has no licence or supplier`);
		}
		expect(
			linked.some((entry) => entry.name === 'libiberty-dev'),
			`${file}: libiberty-dev is missing`,
		);
	}
	if (file.endsWith('-linux-x86_64')) {
		// Libraries that have their version as a text in them.
		const upstream = (name) =>
			linked
				.find((entry) => entry.name === name)
				?.versionInfo.replace(/^\d+:/, '')
				.replace(/[-+~].*/, '');
		for (const [name, text] of [
			['libssl-dev', (version) => `OpenSSL ${version}`],
			['zlib1g-dev', (version) => version.replace('.dfsg', '')],
		])
			expect(upstream(name) && bytes.includes(text(upstream(name))), `${file} has no text of ${name} ${upstream(name)}`);
	}
	if (file.startsWith('wick_')) {
		const scratch = process.env.TMPDIR ?? '/tmp';
		const program = join(scratch, `sbom-${process.pid}`);
		run('sh', '-c', `dpkg-deb --fsys-tarfile "$0" | tar -xO ./usr/bin/wick >"$1"`, join(folder, file), program);
		const needed = [...run('readelf', '-dW', program).matchAll(/NEEDED.*\[(.*)\]/g)].map((match) => match[1]);
		run('rm', program);
		const depended = related(artefact.SPDXID, 'DEPENDS_ON').map((entry) => entry.name);
		expect(needed.length > 5, `${file}: the program needs no library`);
		for (const library of needed) {
			const owner = run('sh', '-c', `dpkg -S "*/$0" | grep -v ' /usr/lib32\\| /lib32' | cut -d: -f1 | sort -u | tail -n 1`, library).trim();
			expect(depended.includes(owner), `${file}: needs ${library} of ${owner}, which is not among ${depended.join(' ')}`);
		}
	}
	if (file.endsWith('.deb')) {
		for (const field of ['Depends', 'Recommends']) {
			const names = new Set(document.packages.map((entry) => entry.name));
			for (const alternatives of run('dpkg-deb', '-f', join(folder, file), field).split(',')) {
				const any = alternatives.split('|').map((text) => text.trim().split(/[ (:]/)[0]);
				expect(!any[0] || any.some((name) => names.has(name)), `${file}: ${field} ${alternatives.trim()} is missing`);
			}
		}
	}
}
faults.forEach((fault) => console.log(fault));
process.exit(faults.length ? 1 : 0);
