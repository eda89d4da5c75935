// SPDX-License-Identifier: Apache-2.0
/** What is drawn anew when it has changed: before the screen's next picture, once, however often it is scheduled until then. */
export abstract class Drawing {
	private frame = 0;
	private destroyed = false;

	protected abstract draw(now: number): void;

	schedule(): void {
		if (this.frame || this.destroyed) return;
		this.frame = requestAnimationFrame((now) => {
			this.frame = 0;
			this.draw(now);
		});
	}

	/** Calls from then on draw nothing: parts that go at the same time may still do so. */
	destroy(): void {
		cancelAnimationFrame(this.frame);
		this.destroyed = true;
	}
}
