// SPDX-License-Identifier: Apache-2.0
import java.lang.management.ManagementFactory;

/** Ninety SECONDS: spends nine tenths of its CPU time in hot() and one in cold(). */
public class Ninety {
	static int hot(int n) {
		int total = 0;
		for (int i = 0; i < 9 * n; i++)
			total = total * 31 + i % 7;
		return total;
	}

	static int cold(int n) {
		int total = 0;
		for (int i = 0; i < n; i++)
			total = total * 31 + i % 7;
		return total;
	}

	static int rounds(double seconds) {
		var thread = ManagementFactory.getThreadMXBean();
		long end = thread.getCurrentThreadCpuTime() + (long) (seconds * 1e9);
		int sum = 0;
		while (thread.getCurrentThreadCpuTime() < end)
			sum += hot(200000) + cold(200000);
		return sum;
	}

	public static void main(String[] args) {
		System.out.println(rounds(Double.parseDouble(args[0])));
	}
}
