// SPDX-License-Identifier: Apache-2.0
import io.pyroscope.labels.v2.LabelsSet;
import io.pyroscope.labels.v2.Pyroscope;
import io.pyroscope.labels.v2.ScopedContext;

/** The work of Work, heavy and light each in a scope with labels of its own, by the API of Pyroscope's agent; a third of it with the older wrapper. */
public final class Labeled {
	static final LabelsSet HEAVY = new LabelsSet("endpoint", "/heavy", "http.route", "/h x"), LIGHT = new LabelsSet("endpoint", "/light");

	static void scoped(LabelsSet labels, Runnable work) {
		try (ScopedContext context = new ScopedContext(labels)) {
			work.run();
		}
	}

	public static void main(String[] args) throws Exception {
		Work.run(args[0], () -> {
			scoped(HEAVY, Work::heavy);
			Pyroscope.LabelsWrapper.run(LIGHT, Work::light);
		});
		Thread.currentThread().join(); // until it is killed: the agent sends the rest
	}
}
