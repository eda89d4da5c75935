<?php
# SPDX-License-Identifier: Apache-2.0
namespace Truth;

# Compiled anew each time: names are read while it runs.
burn(60);
(function () {
	burn(60);
})();
