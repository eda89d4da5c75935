-- SPDX-License-Identifier: Apache-2.0
-- Loaded by truth.lua.
local included = {}
function included.call(f)
	local result = f(5)
	return result
end
included.call(...)
return included
