// SPDX-License-Identifier: Apache-2.0
// java Truth SECONDS LOG [VARIANT...]: for SECONDS of CPU time, runs methods in many ways, and writes down for each the stack that the virtual machine itself says it is
// called by. LOG gets a line a stack, JSON: {"variant": ..., "stack": [[class.method, file, line], ...]}, outermost first; the last frame is
// burn(), in which nearly all time goes by. Compiles for 8 and later; what came later is reached by reflection.
import java.io.ByteArrayOutputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.security.AccessController;
import java.security.PrivilegedAction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;
import java.util.function.IntSupplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

public class Truth {
	static final Set<String> known = new HashSet<>();
	static final ThreadLocal<String> variant = new ThreadLocal<>();
	static PrintWriter log;
	static volatile long sink;
	static Object walker;
	static Method walk, className, methodName, fileName, lineNumber;

	// ---- what the virtual machine says ----

	static void findWalker() throws Exception {
		try {
			Class<?> type = Class.forName("java.lang.StackWalker"), frame = Class.forName("java.lang.StackWalker$StackFrame");
			@SuppressWarnings({"unchecked", "rawtypes"})
			Object options = EnumSet.allOf((Class) Class.forName("java.lang.StackWalker$Option"));
			@SuppressWarnings("unchecked")
			Set<Object> kept = (Set<Object>) options;
			kept.removeIf(option -> option.toString().equals("DROP_METHOD_INFO"));
			walker = type.getMethod("getInstance", Set.class).invoke(null, options);
			walk = type.getMethod("walk", Function.class);
			className = frame.getMethod("getClassName");
			methodName = frame.getMethod("getMethodName");
			fileName = frame.getMethod("getFileName");
			lineNumber = frame.getMethod("getLineNumber");
		} catch (ClassNotFoundException before9) {
			walker = null;
		}
	}

	static void put(StringBuilder text, String type, String method, String file, int line) {
		text.insert(0, String.format("[\"%s.%s\", \"%s\", %d], ", type.replaceFirst("/.*", ""), method, file == null ? "" : file, Math.max(line, 0)));
	}

	static String stack() throws Exception {
		StringBuilder text = new StringBuilder();
		boolean[] mine = {true};
		if (walker == null) {
			for (StackTraceElement frame : new Throwable().getStackTrace())
				if (!mine[0])
					put(text, frame.getClassName(), frame.getMethodName(), frame.getFileName(), frame.getLineNumber());
				else if (frame.getMethodName().equals("note"))
					mine[0] = false;
			return text.toString();
		}
		Function<Stream<Object>, Object> all = frames -> frames.collect(Collectors.toList());
		for (Object frame : (List<?>) walk.invoke(walker, all)) {
			String method = (String) methodName.invoke(frame);
			if (!mine[0])
				put(text, (String) className.invoke(frame), method, (String) fileName.invoke(frame), (int) lineNumber.invoke(frame));
			else if (method.equals("note"))
				mine[0] = false;
		}
		return text.toString();
	}

	static void note() {
		try {
			String stack = stack(), line = String.format("{\"variant\": \"%s\", \"stack\": [%s]}", variant.get(), stack.substring(0, stack.length() - 2));
			synchronized (known) {
				if (known.add(line)) {
					log.println(line);
					log.flush();
				}
			}
		} catch (Exception e) {
			throw new RuntimeException(e);
		}
	}

	// ---- what is called ----

	public static int burn(int milliseconds) {
		note();
		long end = System.nanoTime() + milliseconds * 1000000L;
		long total = 0;
		while (System.nanoTime() < end)
			for (int i = 0; i < 2000; i++)
				total = (total * 31 + i) % 1000003;
		sink += total;
		return 1;
	}

	// Seconds of CPU time of the process, with its compilers: what the kernel says is cheaper than what is loaded for the virtual machine's own word.
	static double used() {
		byte[] text = new byte[1024];
		int length;
		try (FileInputStream file = new FileInputStream("/proc/self/stat")) {
			length = file.read(text);
		} catch (IOException e) {
			throw new UncheckedIOException(e);
		}
		String[] fields = new String(text, 0, length, StandardCharsets.US_ASCII).split(" "); // the program's name is java: no blank in it
		return (Long.parseLong(fields[13]) + Long.parseLong(fields[14])) / 100.0;
	}

	static void plain() {
		hot();
		cold();
	}

	static void hot() {
		burn(18);
	}

	static void cold() {
		burn(2);
	}

	static int deep(int depth) {
		if (depth > 0)
			return deep(depth - 1);
		return burn(20);
	}

	static int even(int n) {
		return n > 0 ? odd(n - 1) : burn(10);
	}

	static int odd(int n) {
		return even(n - 1);
	}

	static void lambdas() {
		IntSupplier supplier = () -> burn(5);
		supplier.getAsInt();
		IntSupplier reference = Truth::referenced;
		reference.getAsInt();
		Function<Integer, Integer> composed = ((Function<Integer, Integer>) Truth::burn).andThen(value -> burn(value + 2));
		composed.apply(3);
	}

	static int referenced() {
		return burn(5);
	}

	static void streams() {
		IntStream.range(0, 3).map(value -> burn(4)).sum();
		Arrays.asList(3, 1, 2).stream().filter(value -> value < 3).map(value -> burn(value * 2)).collect(Collectors.toList());
		new ArrayList<>(Arrays.asList(1, 2)).forEach(value -> burn(3));
	}

	static int raises(int depth) {
		if (depth == 0)
			throw new IllegalStateException("expected");
		try {
			return raises(depth - 1);
		} finally {
			burn(3);
		}
	}

	static void exceptions() {
		try {
			raises(5);
		} catch (IllegalStateException expected) {
			burn(5);
		}
	}

	static void callbacks() throws Exception {
		Integer[] values = {3, 1, 2};
		Arrays.sort(values, new Comparator<Integer>() {
			@Override
			public int compare(Integer a, Integer b) {
				burn(3);
				return a - b;
			}
		});
		Truth.class.getDeclaredMethod("reflected", int.class).invoke(null, 5);
		Map<Integer, Integer> map = new LinkedHashMap<>();
		map.computeIfAbsent(1, key -> burn(4));
	}

	@SuppressWarnings({"deprecation", "removal"})
	static void privileged() {
		AccessController.doPrivileged((PrivilegedAction<Integer>) () -> burn(5));
	}

	static int reflected(int milliseconds) {
		return burn(milliseconds);
	}

	static void handles() throws Throwable {
		MethodHandle handle = MethodHandles.lookup().findStatic(Truth.class, "reflected", MethodType.methodType(int.class, int.class));
		int ignored = (int) handle.invokeExact(5);
		ignored = (int) MethodHandles.filterArguments(handle, 0, handle).invoke(5);
	}

	interface Shape {
		int area();
	}

	abstract static class Base implements Shape {
		final int of() {
			return area();
		}
	}

	static class Square extends Base {
		@Override
		public int area() {
			return burn(3);
		}
	}

	static class Circle extends Base {
		@Override
		public synchronized int area() {
			return burn(3);
		}
	}

	static class Line extends Base {
		@Override
		public int area() {
			return burn(3);
		}
	}

	static final Shape[] shapes = {new Square(), new Circle(), new Line()};

	static void dispatch() {
		for (Shape shape : shapes) {
			shape.area();
			((Base) shape).of();
		}
	}

	static class Initialized {
		static final int VALUE = burn(20);
	}

	static void initializes() {
		burn(Initialized.VALUE + 3);
	}

	// Classes that are loaded anew each time, and unloaded.
	public static class First implements IntSupplier {
		@Override
		public int getAsInt() {
			return first();
		}

		int first() {
			return burn(2);
		}
	}

	public static class Second implements IntSupplier {
		static int count;

		@Override
		public int getAsInt() {
			count++;
			return second(1, 2, "3");
		}

		int second(int a, int b, String c) {
			return a + b + c.length() + burn(2);
		}
	}

	static class Loader extends ClassLoader {
		Loader() {
			super(Truth.class.getClassLoader());
		}

		IntSupplier make(Class<?> like) throws Exception {
			ByteArrayOutputStream bytes = new ByteArrayOutputStream();
			try (InputStream from = Truth.class.getResourceAsStream(like.getName() + ".class")) {
				for (int b = from.read(); b >= 0; b = from.read())
					bytes.write(b);
			}
			return (IntSupplier) defineClass(like.getName(), bytes.toByteArray(), 0, bytes.size()).getDeclaredConstructor().newInstance();
		}
	}

	static void unloads() throws Exception {
		for (int i = 0; i < 20; i++)
			new Loader().make(i % 3 == 0 ? First.class : Second.class).getAsInt();
		System.gc();
	}

	static int grüße_Привет(int n) {
		return burn(n);
	}

	// ---- threads ----

	interface Body {
		void run() throws Throwable;
	}

	static void repeat(String name, Body body, double end) {
		variant.set(name);
		try {
			while (used() < end)
				body.run();
		} catch (Throwable e) {
			e.printStackTrace();
			System.exit(1);
		}
	}

	static void threads(double end) throws Exception {
		List<Thread> made = new ArrayList<>();
		for (Body body : Arrays.<Body>asList(Truth::plain, () -> even(12), Truth::streams, Truth::dispatch))
			made.add(new Thread(() -> repeat("threads", body, end), "worker " + made.size()));
		for (Thread thread : made)
			thread.start();
		for (Thread thread : made)
			thread.join();
	}

	// ---- virtual threads: what has waited has its outer frames in the heap when it goes on ----

	// Waits somewhere in a deep stack, innermost, and on the way back.
	static int descend(int depth, Body wait) throws Throwable {
		int total = depth > 0 ? descend(depth - 1, wait) : 0;
		if (depth % 40 == 0) {
			wait.run();
			total += burn(3);
		}
		return total + 1;
	}

	// More arguments than there are registers: some are on the stack.
	static int wide(int depth, int a, int b, int c, int d, int e, int f, int g, int h, Body wait) throws Throwable {
		int total = depth > 0 ? wide(depth - 1, h, a, b, c, d, e, f, g, wait) : g;
		if (depth % 4 == 0) {
			wait.run();
			total += burn(2);
		}
		return total + a + b + c + d + e + f + h;
	}

	static void held(ReentrantLock lock, int depth) throws Throwable {
		lock.lock();
		try {
			descend(depth, Thread::yield);
		} finally {
			lock.unlock();
		}
	}

	// Until 23 a thread that is in a monitor does not leave its carrier.
	static void pinned(Object monitor) throws Throwable {
		synchronized (monitor) {
			Thread.sleep(1);
			burn(2);
		}
	}

	static void passed(BlockingQueue<Integer> from, BlockingQueue<Integer> to) throws Throwable {
		Integer item = from.poll(5, TimeUnit.MILLISECONDS);
		burn(2);
		to.offer(item == null ? 1 : item + 1);
		descend(12, () -> from.poll(1, TimeUnit.MILLISECONDS));
	}

	static void virtual(double end) throws Exception {
		Method start;
		try {
			start = Thread.class.getMethod("startVirtualThread", Runnable.class);
		} catch (NoSuchMethodException before21) {
			return;
		}
		ReentrantLock lock = new ReentrantLock();
		BlockingQueue<Integer> there = new LinkedBlockingQueue<>(8), back = new SynchronousQueue<>();
		Object monitor = new Object();
		List<Thread> made = new ArrayList<>();
		for (Body body : Arrays.<Body>asList(() -> {
			even(9);
			Thread.yield();
		}, () -> descend(200, Thread::yield), () -> descend(80, () -> Thread.sleep(1)), () -> wide(12, 1, 2, 3, 4, 5, 6, 7, 8, Thread::yield),
				() -> held(lock, 40), () -> held(lock, 3), () -> pinned(monitor), () -> passed(there, back), () -> passed(back, there),
				() -> Stream.of(1, 2).map(value -> {
					Thread.yield();
					return burn(value);
				}).collect(Collectors.toList())))
			made.add((Thread) start.invoke(null, (Runnable) () -> repeat("virtual", body, end)));
		for (Thread thread : made)
			thread.join();
	}

	public static void main(String[] arguments) throws Exception {
		Map<String, Body> variants = new LinkedHashMap<>();
		variants.put("plain", Truth::plain);
		variants.put("deep", () -> deep(200));
		variants.put("mutual", () -> even(12));
		variants.put("lambdas", Truth::lambdas);
		variants.put("streams", Truth::streams);
		variants.put("exceptions", Truth::exceptions);
		variants.put("callbacks", Truth::callbacks);
		variants.put("privileged", Truth::privileged);
		variants.put("handles", Truth::handles);
		variants.put("dispatch", Truth::dispatch);
		variants.put("initializes", Truth::initializes);
		variants.put("unloads", Truth::unloads);
		variants.put("unicode", () -> grüße_Привет(5));
		variants.put("threads", null);
		variants.put("virtual", null);
		findWalker();
		log = new PrintWriter(arguments[1], "UTF-8");
		double seconds = Double.parseDouble(arguments[0]);
		List<String> names = arguments.length > 2 ? Arrays.asList(arguments).subList(2, arguments.length) : new ArrayList<>(variants.keySet());
		for (String name : names) {
			double end = used() + seconds / names.size();
			if (name.equals("threads"))
				threads(end);
			else if (name.equals("virtual"))
				virtual(end);
			else
				repeat(name, variants.get(name), end);
		}
	}
}
