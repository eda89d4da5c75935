<?php
// SPDX-License-Identifier: Apache-2.0
// ninety.php SECONDS: spends nine tenths of its CPU time in hot() and one in cold().
function hot($n)
{
	$total = 0;
	for ($i = 0; $i < 9 * $n; $i++)
		$total += $i & 7;
	return $total;
}

function cold($n)
{
	$total = 0;
	for ($i = 0; $i < $n; $i++)
		$total += $i & 7;
	return $total;
}

function cpu_seconds()
{
	$usage = getrusage();
	return $usage['ru_utime.tv_sec'] + $usage['ru_utime.tv_usec'] / 1e6;
}

function rounds($seconds)
{
	$end = cpu_seconds() + $seconds;
	while (cpu_seconds() < $end) {
		hot(50000);
		cold(50000);
	}
}

rounds((float)$argv[1]);
