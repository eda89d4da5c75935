-- SPDX-License-Identifier: Apache-2.0
-- ninety.lua SECONDS: spends nine tenths of its CPU time in hot() and one in cold().
local function hot(n)
	local total = 0
	for i = 1, 9 * n do
		total = total + i % 8
	end
	return total
end

local function cold(n)
	local total = 0
	for i = 1, n do
		total = total + i % 8
	end
	return total
end

local function rounds(seconds)
	local stop = os.clock() + seconds
	while os.clock() < stop do
		hot(20000)
		cold(20000)
	end
end

rounds(tonumber(arg[1]))
