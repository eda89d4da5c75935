# SPDX-License-Identifier: Apache-2.0
# forge.rb LIBRARY: loads what forges the functions of this process, from within some (see forge.c).
require 'fiddle'

def nested(depth)
  depth.zero? ? Fiddle.dlopen(ARGV[0]) : nested(depth - 1)
end
nested(20)
