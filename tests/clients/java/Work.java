// SPDX-License-Identifier: Apache-2.0
import java.lang.management.ManagementFactory;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/** Work of known shares: seven rounds in heavy, three in light. Beside that a little of what has profiles of its own: allocations, locks, parked threads. */
public final class Work {
	static volatile double sink;
	static volatile Object kept;
	static final Object monitor = new Object();
	static final ReentrantLock lock = new ReentrantLock();

	static double spin() {
		double x = 0;
		for (int i = 0; i < 3000000; i++) x += Math.sqrt(i);
		return x;
	}

	static void heavy() {
		for (int i = 0; i < 7; i++) sink += spin();
	}

	static void light() {
		for (int i = 0; i < 3; i++) sink += spin();
	}

	static void allocate() {
		byte[][] all = new byte[64][];
		for (int i = 0; i < all.length; i++) all[i] = new byte[2000 + 200 * i];
		kept = new Object[] {all, new byte[2 << 20]};
	}

	static void takeMonitor() {
		synchronized (monitor) {
			sink++;
		}
	}

	static void takeLock() {
		lock.lock();
		lock.unlock();
	}

	/** A thread that waits for what the caller has, for a millisecond at least. */
	static Thread waiter(Runnable take, Thread.State state) {
		Thread thread = new Thread(take, "waiter");
		thread.start();
		while (thread.getState() != state) LockSupport.parkNanos(100000);
		LockSupport.parkNanos(1000000);
		return thread;
	}

	static void contend() throws InterruptedException {
		Thread waiter;
		synchronized (monitor) {
			waiter = waiter(Work::takeMonitor, Thread.State.BLOCKED);
		}
		waiter.join();
		lock.lock();
		waiter = waiter(Work::takeLock, Thread.State.WAITING);
		lock.unlock();
		waiter.join();
	}

	static long cpuNs() {
		return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
	}

	/** Prints the CPU time from here on: what starting a JVM and an agent takes is not profiled. */
	static void run(String seconds, Runnable round) throws Exception {
		long start = cpuNs();
		while (cpuNs() - start < Double.parseDouble(seconds) * 1e9) {
			round.run();
			allocate();
			contend();
		}
		System.out.println("cpu_ns " + (cpuNs() - start));
	}

	/** Argument: seconds of CPU time. */
	public static void main(String[] args) throws Exception {
		run(args[0], () -> {
			heavy();
			light();
		});
	}
}
