// SPDX-License-Identifier: Apache-2.0
// The debug file that Parca Agent makes of a program before it sends it (github.com/parca-dev/parca-agent, reporter/elfwriter): program
// headers of notes alone, with the offsets of the original; then the contents of the sections that are kept, one behind the other;
// every other section without contents and with a size of 0; then the section headers. ELF64, little-endian.
import { createHash } from 'node:crypto';

const SHT = { NULL: 0, SYMTAB: 2, STRTAB: 3, RELA: 4, NOTE: 7, NOBITS: 8, REL: 9, DYNSYM: 11 },
	PT_NOTE = 4;
const links = { '.symtab': '.strtab', '.dynsym': '.dynstr' };
const keptNames = new Set(['.comment', '.gosymtab', '.gopclntab', '.go.buildinfo', '.data.rel.ro.gosymtab', '.data.rel.ro.gopclntab', '.plt', '.plt.got']);
const keptTypes = new Set([SHT.SYMTAB, SHT.DYNSYM, SHT.STRTAB, SHT.RELA, SHT.REL, SHT.NOTE]);

function readElf(file) {
	const u64 = (at) => Number(file.readBigUInt64LE(at));
	const [phoff, shoff] = [u64(32), u64(40)],
		[phnum, shnum, shstrndx] = [file.readUInt16LE(56), file.readUInt16LE(60), file.readUInt16LE(62)];
	const segments = Array.from({ length: phnum }, (_, i) => file.subarray(phoff + 56 * i, phoff + 56 * (i + 1)));
	const sections = Array.from({ length: shnum }, (_, i) => {
		const at = shoff + 64 * i;
		return {
			header: Buffer.from(file.subarray(at, at + 64)),
			type: file.readUInt32LE(at + 4),
			offset: u64(at + 24),
			size: u64(at + 32),
			link: file.readUInt32LE(at + 40),
		};
	});
	const names = sections[shstrndx];
	for (const section of sections) {
		const start = names.offset + section.header.readUInt32LE(0);
		section.name = file.toString('latin1', start, file.indexOf(0, start));
		section.bytes = section.type === SHT.NOBITS || section.type === SHT.NULL ? Buffer.alloc(0) : file.subarray(section.offset, section.offset + section.size);
	}
	return { segments, sections };
}

export function onlyKeepDebug(file) {
	const { segments, sections } = readElf(file),
		notes = segments.filter((of) => of.readUInt32LE(0) === PT_NOTE);
	const out = sections.filter((of) => of.name !== '.shstrtab');
	const strings = ['', ...new Set(out.map((of) => of.name).filter(Boolean)), '.shstrtab'],
		offsets = new Map();
	let length = 0;
	for (const name of strings) {
		offsets.set(name, length);
		length += name.length + 1;
	}
	const table = { name: '.shstrtab', type: SHT.STRTAB, header: Buffer.alloc(64), bytes: Buffer.from(strings.map((s) => `${s}\0`).join('')), link: 0 };
	table.header.writeUInt32LE(SHT.STRTAB, 4);
	table.header.writeBigUInt64LE(1n, 48);
	out.push(table);
	const header = Buffer.from(file.subarray(0, 64)),
		parts = [header, ...notes],
		here = () => parts.reduce((all, part) => all + part.length, 0);
	for (const section of out) {
		const isKept = section.type === SHT.NULL || keptTypes.has(section.type) || keptNames.has(section.name) || /^\.z?debug_/.test(section.name);
		const bytes = isKept ? section.bytes : Buffer.alloc(0),
			copy = Buffer.from(section.header);
		copy.writeUInt32LE(offsets.get(section.name), 0);
		if (!isKept) copy.writeUInt32LE(SHT.NOBITS, 4);
		if (section.type !== SHT.NULL) copy.writeBigUInt64LE(BigInt(here()), 24);
		copy.writeBigUInt64LE(BigInt(bytes.length), 32);
		copy.writeUInt32LE(section.link && links[section.name] ? out.findIndex((of) => of.name === links[section.name]) : 0, 40);
		section.written = copy;
		parts.push(bytes);
	}
	header.writeBigUInt64LE(0n, 24); // the entry
	header.writeBigUInt64LE(BigInt(notes.length ? 64 : 0), 32);
	header.writeBigUInt64LE(BigInt(here()), 40);
	header.writeUInt16LE(notes.length, 56);
	header.writeUInt16LE(out.length, 60);
	header.writeUInt16LE(out.length - 1, 62);
	return Buffer.concat([...parts, ...out.map((of) => of.written)]);
}

// By what the agent knows a file: the build-id if its first segment of notes has one, else a hash of its ends and its length.
export function agentId(file) {
	const first = readElf(file).segments.find((of) => of.readUInt32LE(0) === PT_NOTE);
	const start = first ? Number(first.readBigUInt64LE(8)) : 0,
		end = first ? start + Number(first.readBigUInt64LE(32)) : 0,
		align = first && Number(first.readBigUInt64LE(48)) === 8 ? 8 : 4;
	for (let at = start; at + 12 <= end;) {
		const [nameSize, size, type] = [0, 4, 8].map((i) => file.readUInt32LE(at + i)),
			data = at + Math.ceil((12 + nameSize) / align) * align;
		if (type === 3 && file.toString('latin1', at + 12, at + 15) === 'GNU') return { id: file.toString('hex', data, data + size), type: 'BUILD_ID_TYPE_GNU' };
		at = data + Math.ceil(size / align) * align;
	}
	return { id: fileHash(file), type: 'BUILD_ID_TYPE_HASH' };
}
export function fileHash(file) {
	const size = Buffer.alloc(8),
		part = Math.min(4096, file.length);
	size.writeBigUInt64BE(BigInt(file.length));
	const hash = createHash('sha256');
	for (const bytes of [file.subarray(0, part), file.subarray(file.length - part), size]) hash.update(bytes);
	return hash.digest('hex').slice(0, 32);
}
