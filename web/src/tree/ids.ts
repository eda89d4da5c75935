// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers for keys of a few numbers: 0 for the first that is met, 1 for the next. A Map would want one key of them,
 * a text or a product that must not overflow, and takes half a second for a million; this is open addressing over typed arrays,
 * a tenth of that. What is hashed comes from outside: the seed keeps others from choosing what collides.
 */

const SEED = (Math.random() * 2 ** 32) | 0;

function mix(h: number, value: number): number {
	h = Math.imul(h ^ value, 0x85ebca6b);
	return h ^ (h >>> 15);
}

export class Ids {
	count = 0;
	private slots: Int32Array; // id + 1, 0 = free
	private keys: Int32Array; // WIDTH for each id
	private static readonly WIDTH = 5;

	constructor(expected = 1024) {
		let size = 16;
		while (size < 2 * expected) size *= 2;
		this.slots = new Int32Array(size);
		this.keys = new Int32Array((size / 2) * Ids.WIDTH);
	}

	private find(a: number, b: number, c: number, d: number, e: number): number {
		const { slots, keys } = this;
		const mask = slots.length - 1;
		let h = mix(mix(mix(mix(mix(SEED, a), b), c), d), e);
		for (h &= mask; slots[h] !== 0; h = (h + 1) & mask) {
			const at = (slots[h] - 1) * Ids.WIDTH;
			if (keys[at] === a && keys[at + 1] === b && keys[at + 2] === c && keys[at + 3] === d && keys[at + 4] === e) break;
		}
		return h;
	}

	private put(at: number, a: number, b: number, c: number, d: number, e: number): void {
		const { keys } = this;
		keys[at] = a;
		keys[at + 1] = b;
		keys[at + 2] = c;
		keys[at + 3] = d;
		keys[at + 4] = e;
	}

	private grow(): void {
		const { keys, count } = this;
		this.slots = new Int32Array(this.slots.length * 2);
		this.keys = new Int32Array(keys.length * 2);
		this.keys.set(keys);
		for (let id = 0, at = 0; id < count; id++, at += Ids.WIDTH)
			this.slots[this.find(keys[at], keys[at + 1], keys[at + 2], keys[at + 3], keys[at + 4])] = id + 1;
	}

	// A new one is `count` as it was before. All are kept as 32 bits with a sign.
	of(a: number, b: number, c = 0, d = 0, e = 0): number {
		const slot = this.find((a |= 0), (b |= 0), (c |= 0), (d |= 0), (e |= 0));
		if (this.slots[slot] !== 0) return this.slots[slot] - 1;
		const id = this.count++;
		this.put(id * Ids.WIDTH, a, b, c, d, e);
		this.slots[slot] = id + 1;
		if (2 * this.count >= this.slots.length) this.grow();
		return id;
	}
}
