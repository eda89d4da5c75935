-- SPDX-License-Identifier: Apache-2.0
-- Runs functions in many ways, and writes down for each the stack that Lua itself says it is called by.
--
-- truth.lua SECONDS LOG [VARIANT...]: SECONDS of CPU time. LOG gets a line a stack, JSON: {"variant": ..., "stack": [[name, file, line], ...]}, outermost first;
-- the last frame is burn(), in which nearly all time goes by. Functions in C are left out. Runs on 5.1 and later, and on LuaJIT.
local loadstring = loadstring or load
local is_51 = _VERSION == "Lua 5.1"
local log, variant
local known, outer = {}, {}

-- The frames of this coroutine from a level on, innermost first. The name is the one that the caller uses, if it uses one.
local function frames(level)
	local found = {}
	level = level + 1
	while true do
		local info = debug.getinfo(level, "nSl")
		if not info then return found end
		if info.what ~= "C" and info.what ~= "tail" then
			local file = info.source:match("^[@=](.*)") or info.short_src
			local name = info.name
			if name == "" or name == "?" or name == "integer index" then name = nil end
			name = name or (info.what == "main" and "main chunk") or ("function <%s:%d>"):format(file:match("[^/]*$"), info.linedefined)
			found[#found + 1] = ("[%q,%q,%d]"):format(name, file, info.currentline)
		end
		level = level + 1
	end
end

local function note()
	local stack, parts = {}, frames(2)
	for i = #outer, 0, -1 do
		for _, frame in ipairs(parts) do table.insert(stack, 1, frame) end
		parts = outer[i]
	end
	local key = ('{"variant":%q,"stack":[%s]}'):format(variant, table.concat(stack, ","))
	if known[key] then return end
	known[key] = true
	log:write(key, "\n")
	log:flush()
end

local clock = os.clock
function burn(milliseconds)
	note()
	local finish, total = clock() + (milliseconds or 20) / 1000, 0
	while clock() < finish do
		for i = 1, 400 do total = total + i * i % 7 end
	end
	return total
end

local variants = {}
local function hot() local result = burn(18) return result end
local function cold() local result = burn(2) return result end
function variants.plain()
	hot()
	cold()
end

local function deep(n)
	local result = n > 0 and deep(n - 1) or burn()
	return result
end
function variants.deep() local result = deep(150) return result end

local even, odd
function even(n) local result = n == 0 and burn() or odd(n - 1) return result end
function odd(n) local result = n == 0 and burn() or even(n - 1) return result end
function variants.mutual() local result = even(12) return result end

local function tail(n)
	if n == 0 then return burn() end
	return tail(n - 1)
end
local function tails(n) return tail(n) end
function variants.tails()
	local result = tails(5)
	return result
end

-- Coroutines: what is outside of one is noted by who resumes it, in the same line.
local function pull(f)
	local co = coroutine.create(f)
	return function()
		outer[#outer + 1] = frames(1) local ok, value = coroutine.resume(co) outer[#outer] = nil
		return ok and value or nil
	end
end
local function producer(n)
	for i = 1, n do
		burn(3)
		coroutine.yield(i)
	end
end
function variants.coroutines()
	for _ in pull(function() producer(2) end) do burn(2) end
	local inner = pull(function()
		for _ in pull(function() producer(2) end) do
			burn(2)
			coroutine.yield(1)
		end
	end)
	while inner() do burn(2) end
	local wrapped = coroutine.wrap(function() producer(1) end)
	outer[#outer + 1] = frames(1) wrapped() outer[#outer] = nil
end

local function fails(n)
	if n == 0 then error("expected") end
	local result = fails(n - 1)
	return result
end
function variants.errors()
	pcall(function()
		burn(4)
		fails(3)
	end)
	xpcall(function() fails(2) end, function(message)
		burn(5)
		return message
	end)
	local ok = pcall(hot)
	return ok
end

local Key = {}
Key.__index = function(_, name)
	burn(3)
	return name == "member" and 1 or Key[name]
end
Key.__newindex = function(key, name, value)
	burn(3)
	rawset(key, name, value)
end
Key.__call = function(_, n) burn(n) end
Key.__add = function(a, b)
	burn(3)
	return a
end
Key.__sub = function(a, b) burn(3) return a end
Key.__unm = function(a) burn(3) return a end
Key.__concat = function(a, b) burn(3) return "" end
Key.__eq = function(a, b) burn(3) return true end
Key.__lt = function(a, b) burn(3) return false end
Key.__le = function(a, b) burn(3) return false end
Key.__tostring = function() burn(3) return "key" end
Key.__len = function() burn(3) return 1 end
local function new_key() return setmetatable({}, Key) end
function variants.metamethods()
	local a, b = new_key(), new_key()
	local value = a.member
	a.other = value
	a(3)
	local sum = a + b
	sum = a + 1
	sum = 1 + b
	sum = a - b
	sum = -a
	local text = a .. "x"
	local same = a == b
	local less = a < b
	less = a <= b
	text = tostring(a)
	local length = #a
	return sum, text, same, less, length
end

function variants.callbacks()
	table.sort({ 3, 1, 2 }, function(a, b)
		burn(3)
		return a < b
	end)
	local text = ("abc"):gsub("b", function() burn(4) return "" end)
	text = text:gsub("%w", hot)
	local function by_value(a, b) burn(3) return a > b end
	table.sort({ 1, 2 }, by_value)
	return text
end

local Account = {}
Account.__index = Account
function Account.new(n) return setmetatable({ n = n, nested = { call = hot } }, Account) end
function Account:deposit(n)
	burn(4)
	self.n = self.n + n
	return self
end
function Account:twice(n)
	local result = self:deposit(n):deposit(n)
	return result
end
function variants.methods()
	local account = Account.new(1)
	account:twice(2)
	account.deposit(account, 3)
	account.nested.call()
	account["deposit"](account, 4)
	local key = "deposit"
	account[key](account, 5)
	account[1] = hot
	account[1]()
	return account
end

local function counter()
	local n = 0
	return function(by)
		n = n + by
		burn(3)
		return n
	end
end
function variants.closures()
	local one, two = counter(), counter()
	one(1)
	two(2);
	(function() burn(4) end)()
	local copy = two
	copy(3)
	for _ in one, 1 do break end
	local chosen = variant and one or two
	chosen(4)
	return (one or two)(4)
end

local function many(...)
	local n = select("#", ...)
	burn(3)
	local result = n > 1 and many(select(2, ...)) or 0
	return result
end
function variants.varargs()
	many(1, 2, 3)
	local list = { hot, cold }
	for _, f in ipairs(list) do f() end
end

-- Code that is loaded is kept for a while: what is freed at once has no name.
local kept = {}
local function keep(f)
	kept[#kept + 1] = f
	if #kept > 100 then table.remove(kept, 1) end
	return f
end
function variants.loaded()
	local text = keep(assert(loadstring("local f = ...\nf(5)\nburn(5)", "=evaluated.lua")))
	text(burn)
	local chunk = keep(assert(loadfile(arg[0]:match("^.*/") .. "included.lua")))
	keep(chunk(burn)).call(burn)
end

-- Yields across pcall(), and out of a metamethod or an iterator: what has waited there has no frames of the interpreter any more.
if not is_51 then
	function variants.yields()
		local step = pull(function()
			pcall(function()
				burn(2)
				coroutine.yield(1)
				burn(4)
				pcall(function()
					coroutine.yield(2)
					burn(4)
				end)
			end)
			burn(2)
			coroutine.yield(3)
			local key = setmetatable({}, { __index = function() coroutine.yield(4) burn(4) return 1 end })
			local value = key.member
			for _ in function(_, last) coroutine.yield(5) burn(4) return not last or nil end do burn(1) end
			known[value] = nil
		end)
		while step() do burn(1) end
	end
end

local seconds, names = tonumber(arg[1]), {}
log = assert(io.open(arg[2], "w"))
for i = 3, #arg do names[#names + 1] = arg[i] end
if #names == 0 then
	for name in pairs(variants) do names[#names + 1] = name end
	table.sort(names)
end
for _, name in ipairs(names) do
	variant = name
	local finish = clock() + seconds / #names
	while clock() < finish do variants[name]() end
end
