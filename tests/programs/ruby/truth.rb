# frozen_string_literal: true
# SPDX-License-Identifier: Apache-2.0
# Runs methods and blocks in many ways, and writes down for each the stack that Ruby itself says it is called by.
#
# truth.rb SECONDS LOG [VARIANT...]: SECONDS of CPU time. LOG gets a line a stack, JSON: {"variant": ..., "stack": [[name, file, line], ...]}, outermost first;
# the last frame is burn(), in which nearly all time goes by; methods that are written in C have no file here. Runs on 2.7 and later.
require 'json'
require 'zlib'

$known = {}
$lock = Mutex.new

# Of a method in C, Ruby says the file and the line of who called it, or of what it calls if nobody did.
def note
  locations = caller_locations(1)
  stack = locations.each_with_index.map do |location, i|
    other = locations[i + 1] || locations[i - 1]
    in_c = IN_C.include?(location.label) && [location.path, location.lineno] == [other.path, other.lineno]
    in_c ? [location.label, '', 0] : [location.label, location.path, location.lineno]
  end
  key = JSON.generate({ variant: Thread.current.thread_variable_get(:variant), stack: stack.reverse })
  return if $known[key]

  $lock.synchronize do
    $known[key] = true
    $log.puts(key)
    $log.flush
  end
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

def used
  Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
end

def burn(milliseconds = 20)
  note
  finish = now + milliseconds / 1000.0
  total = 0
  while now < finish
    i = 0
    while i < 400
      total += i * i & 1023
      i += 1
    end
  end
  total
end

def plain
  hot
  cold
end

def hot
  burn(18)
end

def cold
  burn(2)
end

def deep(depth = 200)
  return deep(depth - 1) if depth.positive?

  burn
end

def even(n)
  n.zero? ? burn : odd(n - 1)
end

def odd(n)
  n.zero? ? burn : even(n - 1)
end

def mutual
  even(12)
end

def raises(depth)
  raise ArgumentError, 'expected' if depth.zero?

  begin
    raises(depth - 1)
  ensure
    burn(3)
  end
end

def exceptions
  raises(5)
rescue ArgumentError
  burn(5)
end

class Key
  include Comparable
  attr_reader :value

  def initialize(value)
    @value = value
    burn(2)
  end

  def <=>(other)
    burn(4)
    @value <=> other.value
  end

  def to_s
    burn(4)
    'key'
  end

  def self.made
    burn(4)
    new(1)
  end

  def method_missing(name, *arguments)
    return super unless name == :missing

    burn(4)
  end

  def respond_to_missing?(*)
    true
  end

  define_method(:defined) do
    burn(4)
  end

  class << self
    def single
      burn(4)
    end
  end
end

def callbacks
  [1, 2].each { |_| burn(4) }
  [1, 2].map { |n| [n].each { burn(4) } }
  [2, 1].sort_by do |n|
    burn(4)
    n
  end
  3.times { burn(3) }
  { a: 1 }.each_pair { |_, _| burn(4) }
  [Key.new(2), Key.new(1)].sort
  [1, 2].inject { |_, _| burn(4) }
  'ab'.gsub(/b/) { burn(4).to_s }
end

def methods_of_classes
  key = Key.made
  key.missing
  key.defined
  "#{key}"
  Key.single
  key.public_send(:to_s)
  key.method(:to_s).call
end

def yields
  yield 1
  yield 2
end

def blocks
  yields { |_| burn(5) }
  lambda { |_| burn(5) }.call(1)
  proc { burn(5) }.call
  procedure = method(:hot).to_proc
  procedure.call
end

def enumerators
  enumerator = Enumerator.new do |out|
    burn(5)
    out << 1
    hot
    out << 2
  end
  enumerator.next
  enumerator.next
  Fiber.new { burn(5) }.resume
  [1, 2].lazy.map { |_| burn(4) }.first(2)
end

def evaluated
  eval("burn(20)\nburn(20)", binding, '/evaluated.rb', 7)
  instance_eval { burn(5) }
  Object.class_eval { burn(5) }
end

def größe_Привет
  burn
end

def tail
  case [1, [2, 3]]
  in [Integer, [a, b]]
    burn(a + b)
  end
end

def in_threads(finish)
  threads = %i[plain mutual callbacks].map do |name|
    Thread.new do
      Thread.current.thread_variable_set(:variant, 'threads')
      send(name) while used < finish
    end
  end
  threads.each(&:join)
end

# What is written in C, by the names that labels have; blocks of theirs are Ruby's own.
IN_C = %w[each map sort_by times each_pair sort inject gsub new call public_send eval instance_eval class_eval next resume first send
          each_entry lazy to_s join zero? positive? loop < > collect yield with_index each_with_index initialize <=> yielder].freeze

VARIANTS = %w[plain deep mutual exceptions callbacks methods_of_classes blocks enumerators evaluated größe_Привет tail].freeze

seconds = ARGV[0].to_f
$log = File.open(ARGV[1], 'w')
names = ARGV[2..]
names = VARIANTS + ['threads'] if names.empty?
names.each do |name|
  Thread.current.thread_variable_set(:variant, name)
  finish = used + seconds / names.size
  if name == 'threads'
    in_threads(finish)
  else
    __send__(name) while used < finish
  end
end
