// SPDX-License-Identifier: Apache-2.0
// java JitLoad SECONDS [FILE]: for so much CPU time, or until the file is there, works 3:1 in two functions, and prints the share in percent that the first one took by its own CPU time.
import java.io.File;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

public class JitLoad {
	static long sink;

	static void hotJava(int n) {
		long s = 0;
		for (int i = 0; i < n; i++)
			s = (s * 31 + i) % 1000003;
		sink += s;
	}

	static void coldJava(int n) {
		long s = 0;
		for (int i = 0; i < n; i++)
			s = (s * 17 + i) % 1000033;
		sink += s;
	}

	static double drive(double seconds, File stop) {
		ThreadMXBean clock = ManagementFactory.getThreadMXBean();
		long hot = 0, cold = 0, end = clock.getCurrentThreadCpuTime() + (long) (seconds * 1e9);
		while (clock.getCurrentThreadCpuTime() < end && (stop == null || !stop.exists())) {
			long began = clock.getCurrentThreadCpuTime();
			hotJava(900000);
			long between = clock.getCurrentThreadCpuTime();
			coldJava(300000);
			hot += between - began;
			cold += clock.getCurrentThreadCpuTime() - between;
		}
		return 100.0 * hot / (hot + cold);
	}

	public static void main(String[] arguments) {
		System.out.printf(java.util.Locale.ROOT, "%.2f%n", drive(Double.parseDouble(arguments[0]), arguments.length > 1 ? new File(arguments[1]) : null));
	}
}
