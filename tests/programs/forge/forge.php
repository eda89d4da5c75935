<?php
// SPDX-License-Identifier: Apache-2.0
// forge.php LIBRARY: loads what forges the functions of this process, from within some (see forge.c).
function nested($depth, $library) { return $depth ? nested($depth - 1, $library) : FFI::cdef("", $library); }
nested(20, $argv[1]);
