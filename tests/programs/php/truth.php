<?php
# SPDX-License-Identifier: Apache-2.0
# Runs functions in many ways, and writes down for each the stack that PHP itself says it is called by.
#
# truth.php SECONDS LOG [VARIANT...]: SECONDS of CPU time. LOG gets a line a stack, JSON: {"variant": ..., "stack": [[name, file, line], ...]}, outermost
# first; the last frame is burn(), in which nearly all time goes by; functions that are written in C have no file. Runs on 7.4 and later.
namespace Truth;

$known = [];
$log = null;
$variant = '';

# As a stack of functions, each with the line that it is at: debug_backtrace() has the line of the call beside the function that is called.
function note(): void
{
	global $known, $log, $variant;
	$frames = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS);
	$at = array_shift($frames); # the call of this function
	$stack = [];
	foreach ($frames as $frame) {
		# What names a class without a name has a NUL in front of where it was declared.
		$name = isset($frame['class']) ? strtok($frame['class'], "\0") . '::' . $frame['function'] : $frame['function'];
		if (in_array($frame['function'], ['include', 'require', 'include_once', 'require_once', 'eval'], true))
			$name = '{main}';
		$stack[] = [$name, $at['file'] ?? '', $at['line'] ?? 0];
		$at = $frame;
	}
	$stack[] = ['{main}', $at['file'] ?? '', $at['line'] ?? 0];
	$key = json_encode(['variant' => $variant, 'stack' => array_reverse($stack)], JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
	if (isset($known[$key]))
		return;
	$known[$key] = true;
	fwrite($log, $key . "\n");
}

function burn(int $milliseconds = 20): int
{
	note();
	$end = hrtime(true) + $milliseconds * 1000000;
	$total = 0;
	while (hrtime(true) < $end)
		for ($i = 0; $i < 400; $i++)
			$total += $i * $i & 1023;
	return $total;
}

# Seconds of CPU time.
function used(): float
{
	$usage = getrusage();
	return $usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec'] + ($usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec']) / 1e6;
}

function plain(): void
{
	hot();
	cold();
}

function hot(): void
{
	burn(18);
}

function cold(): void
{
	burn(2);
}

function deep(int $depth = 200): int
{
	if ($depth)
		return deep($depth - 1);
	return burn();
}

function even(int $n): int
{
	return $n ? odd($n - 1) : burn();
}

function odd(int $n): int
{
	return $n ? even($n - 1) : burn();
}

function mutual(): void
{
	even(12);
}

function numbers(): \Generator
{
	for ($i = 0; $i < 3; $i++) {
		burn(6);
		yield $i;
	}
}

function chained(): \Generator
{
	yield from numbers();
}

function twice(): \Generator
{
	yield from chained();
}

function generators(): void
{
	foreach (numbers() as $_)
		;
	foreach (chained() as $_)
		;
	foreach (twice() as $_)
		;
	iterator_to_array(twice(), false);
}

function raises(int $depth): int
{
	if ($depth) {
		try {
			return raises($depth - 1);
		} finally {
			burn(3);
		}
	}
	throw new \RuntimeException('expected');
}

function exceptions(): void
{
	try {
		raises(5);
	} catch (\RuntimeException $e) {
		burn(5);
	}
}

class Held
{
	public function __destruct()
	{
		burn(5);
	}

	public function __call($name, $arguments)
	{
		return burn(5);
	}

	public static function __callStatic($name, $arguments)
	{
		return burn(5);
	}

	public function __get($name)
	{
		return burn(5);
	}

	public function __toString(): string
	{
		burn(5);
		return 'held';
	}
}

function throws_over_objects(): void
{
	$held = new Held();
	throw new \RuntimeException('expected');
}

function destructors(): void
{
	$held = new Held();
	$held = null;
	try {
		throws_over_objects();
	} catch (\RuntimeException $e) {
	}
}

function magic(): void
{
	$held = new Held();
	$held->missing();
	Held::missing();
	$held->property;
	strlen($held);
	$held = null;
}

interface Shape
{
	public function area(): int;
}

abstract class Base implements Shape
{
	public function area(): int
	{
		return $this->inner();
	}

	abstract protected function inner(): int;
}

trait Burns
{
	protected function inner(): int
	{
		return static::last();
	}
}

final class Square extends Base
{
	use Burns;

	public function __construct()
	{
		burn(5);
	}

	protected static function last(): int
	{
		return burn(5);
	}

	public function __invoke(int $n): int
	{
		return burn(5);
	}
}

function methods(): void
{
	$square = new Square();
	$square->area();
	$square(1);
	$anonymous = new class() {
		public function run(): int
		{
			return burn(5);
		}
	};
	$anonymous->run();
}

function compare(int $a, int $b): int
{
	burn(2);
	return $a <=> $b;
}

function callbacks(): void
{
	# A closure is an object: names are read while it is there.
	array_map(function ($n) {
		return burn(30);
	}, [1, 2]);
	array_map(fn($n) => burn(30), [1, 2]);
	$list = [3, 1, 2];
	usort($list, 'Truth\compare');
	array_walk($list, [new Square(), '__invoke']);
	call_user_func_array('Truth\hot', []);
	preg_replace_callback('/b/', function ($match) {
		burn(60);
		return '';
	}, 'abc');
}

# A function in C that works by itself, called directly and by another one.
function burn_in_c(int $milliseconds = 20): void
{
	note();
	$end = hrtime(true) + $milliseconds * 1000000;
	while (hrtime(true) < $end)
		md5(BLOCK);
}
define('Truth\BLOCK', str_repeat('x', 1 << 18));

function outside(): void
{
	burn_in_c();
}

function included(): void
{
	include __DIR__ . '/included.php';
}

function evaluated(): void
{
	eval("function_exists('Truth\\hot');\n\\Truth\\burn(60);");
}

function grüße_Привет(): int
{
	return burn();
}

# Since 8.1; on a stack of its own.
function fibers(): void
{
	if (!class_exists('Fiber'))
		return;
	$fiber = new \Fiber(function () {
		burn(5);
		\Fiber::suspend();
		hot();
	});
	$fiber->start();
	$fiber->resume();
}

const VARIANTS = [
	'plain' => 'plain',
	'deep' => 'deep',
	'mutual' => 'mutual',
	'generators' => 'generators',
	'exceptions' => 'exceptions',
	'destructors' => 'destructors',
	'magic' => 'magic',
	'methods' => 'methods',
	'callbacks' => 'callbacks',
	'outside' => 'outside',
	'included' => 'included',
	'evaluated' => 'evaluated',
	'unicode' => 'grüße_Привет',
	'fibers' => 'fibers',
];

function main(array $arguments): void
{
	global $log, $variant;
	$names = array_slice($arguments, 3) ?: array_keys(VARIANTS);
	$log = fopen($arguments[2], 'w');
	foreach ($names as $variant) {
		$end = used() + (float) $arguments[1] / count($names);
		while (used() < $end)
			(__NAMESPACE__ . '\\' . VARIANTS[$variant])();
	}
}

main($argv);
