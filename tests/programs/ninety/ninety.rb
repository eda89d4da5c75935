# SPDX-License-Identifier: Apache-2.0
# ninety.rb SECONDS: spends nine tenths of its CPU time in hot() and one in cold().
def hot(n)
  total = 0
  i = 0
  while i < 9 * n
    total += i & 7
    i += 1
  end
  total
end

def cold(n)
  total = 0
  i = 0
  while i < n
    total += i & 7
    i += 1
  end
  total
end

def rounds(seconds)
  finish = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + seconds
  while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < finish
    hot(50_000)
    cold(50_000)
  end
end

rounds(ARGV[0].to_f)
