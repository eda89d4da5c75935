# SPDX-License-Identifier: Apache-2.0
# Compiled anew each time: names are read while it runs.
burn(60);
sub { burn(60) }->();
