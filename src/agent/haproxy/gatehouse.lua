-- What HAProxy's own converters cannot do: ask IP policies, rewrite headers under names that are only known at run
-- time, and find a wildcard host. Loaded once for each thread, so that no lock is shared between threads.
--
-- Whatever is missing or cannot be read is a denial: the configuration lets nothing through but the word 'open'.

local folder = os.getenv('GATEHOUSE_FOLDER')
-- For each thread. Policies beyond that are dropped, the least recently used half first, and read again when asked for.
local cacheBytes = tonumber(os.getenv('GATEHOUSE_POLICY_CACHE_BYTES')) or 64 * 1024 * 1024
local cacheSeconds = 600

local function map(name)
  return Map.new(folder .. '/maps/' .. name .. '.map', Map._str)
end
local policies, restrictions, headers = map('policy'), map('restrictions'), map('headers')
local responses = map('response')

local unpack, ult, sub = string.unpack, math.ult, string.sub

-- Remembers up to `most` results of a function, then starts over. Only for functions of their argument alone, so that
-- nothing remembered can become wrong.
local function remembered(most, work)
  local answers, count = {}, 0
  return function(argument)
    local answer = answers[argument]
    if answer ~= nil then return answer end
    if count >= most then answers, count = {}, 0 end
    answer = work(argument)
    answers[argument] = answer
    count = count + 1
    return answer
  end
end

-- Two generations instead of a list ordered by use: one table look-up when it is there, nothing to sort when it is full.
local young, old, youngBytes, turned = {}, {}, 0, 0
local function read(hash)
  if not hash:match('^%x+$') then return nil end
  local file = io.open(folder .. '/policies/' .. hash, 'rb')
  if not file then return nil end
  local data = file:read('a')
  file:close()
  if not data or #data < 12 or sub(data, 1, 4) ~= 'GHP1' then return nil end
  local n4, n6 = unpack('>I4I4', data, 5)
  if #data ~= 12 + 5 * n4 + 17 * n6 then return nil end
  return { data = data, n4 = n4, n6 = n6 }
end
local function policyFile(hash)
  local file = young[hash]
  if file then return file end
  -- A file that is not there is asked for again each time: it may come.
  file = old[hash] or read(hash)
  if not file then return nil end
  local now = core.now().sec
  if youngBytes + #file.data > cacheBytes / 2 or now - turned > cacheSeconds then
    old, young, youngBytes, turned = young, {}, 0, now
  end
  young[hash] = file
  youngBytes = youngBytes + #file.data
  return file
end

-- Both search the file in place for the last range that starts at or below the address.
local function verdict4(file, address)
  local data, low, high = file.data, 0, file.n4
  while low < high do
    local middle = (low + high) // 2
    if unpack('>I4', data, 13 + 5 * middle) <= address then low = middle + 1 else high = middle end
  end
  return low == 0 and 0 or data:byte(13 + 5 * low - 1)
end
local function verdict6(file, upper, lower)
  local data, first, low, high = file.data, 13 + 5 * file.n4, 0, file.n6
  while low < high do
    local middle = (low + high) // 2
    local a, b = unpack('>i8i8', data, first + 17 * middle)
    if ult(upper, a) or (upper == a and ult(lower, b)) then high = middle else low = middle + 1 end
  end
  return low == 0 and 0 or data:byte(first + 17 * low - 1)
end

-- By the hash that the file is named by, so that what is remembered cannot outlive the policy: another is another file.
local verdicts, verdictCount = {}, 0
local function verdictOf(hash, source)
  local known = verdicts[hash]
  local verdict = known and known[source]
  if verdict then return verdict end
  local file = policyFile(hash)
  if not file then return nil end
  if #source == 8 then
    verdict = verdict4(file, tonumber(source, 16))
  else
    verdict = verdict6(file, tonumber(sub(source, 1, 16), 16), tonumber(sub(source, 17), 16))
  end
  if verdictCount >= 16384 then verdicts, verdictCount, known = {}, 0, nil end
  if not known then
    known = {}
    verdicts[hash] = known
  end
  known[source] = verdict
  verdictCount = verdictCount + 1
  return verdict
end

-- All policies of a set count as one: any deny wins over every allow, and what nothing allows is denied.
local function allows(set, source)
  local allowed = false
  for index = 1, #set do
    local hash = policies:lookup(set[index])
    local verdict = hash and verdictOf(hash, source)
    if verdict == 1 then allowed = true elseif verdict ~= 0 then return false end
  end
  return allowed
end

-- Read by events.ts.
local function report(outcome, restriction, target, source)
  core.log(core.notice, 'gatehouse ' .. outcome .. ' ' .. restriction .. ' ' .. target .. ' ' .. source .. ' ')
end

local function parseSet(text)
  local set = {}
  for id in text:gmatch('[^+]+') do set[#set + 1] = id end
  return set
end

-- An IPv4-mapped IPv6 address is the IPv4 address. Nil for what is neither.
local mapped = ('0'):rep(20) .. 'FFFF'
local function plainSource(source)
  if #source == 32 and sub(source, 1, 24) == mapped then source = sub(source, 25) end
  return (#source == 8 or #source == 32) and source or nil
end

-- '<source in hex>|<hash of a policy>' → 'allow', or anything else: what the policy says, if it is the only one that
-- counts. Reports nothing, so whoever does not hear 'allow' asks `decide` as well.
core.register_converters('verdict', remembered(16384, function(input)
  local source, hash = input:match('^(%x+)|(%x+)$')
  source = source and plainSource(source)
  local verdict = source and verdictOf(hash, source)
  -- A file that is not there yet may come: nil is not remembered.
  return verdict and (verdict == 1 and 'allow' or 'deny')
end))

-- '<source in hex>|<edge or route>|<account>|<backend>|<slashes>|<websocket>|<timeouts>|<headers>|<open or policies>': what asks
-- to be let through. False when it cannot be read.
local caseOf = remembered(4096, function(input)
  local source, target, account, set = input:match('^(%x+)|([^|]+)|([^|]+)|[^|]+|[^|]|[^|]|[^|]|[^|]|([^|]*)$')
  source = source and plainSource(source)
  if not source then return false end
  return { source = source, target = target, account = account, set = set ~= 'open' and parseSet(set) }
end)

-- 'ipx_1!ipp_1+ipp_2 ipx_2?ipp_3', with ! for enforced and ? for warning only, or 'none'. False when it cannot be read.
local restrictionsOf = remembered(256, function(text)
  local list = {}
  if text == 'none' then return list end
  for each in text:gmatch('%S+') do
    local id, kind, set = each:match('^([%w_]+)([!?])([%w_+]*)$')
    if not id then return false end
    list[#list + 1] = { id = id, isEnforced = kind == '!', set = parseSet(set) }
  end
  return list
end)

-- → 'open' or 'shut'
local function decide(input)
  local case = caseOf(input)
  if not case then return 'shut' end
  local source, refusedBy = case.source, nil
  if case.set and not allows(case.set, source) then refusedBy = '-' end
  -- What is not known of an account might refuse: without its entry it is shut.
  local text = restrictions:lookup(case.account)
  local list = text and restrictionsOf(text)
  if not list then return 'shut' end
  for _, each in ipairs(list) do
    if not allows(each.set, source) then
      if each.isEnforced then refusedBy = refusedBy or each.id else report('warned', each.id, case.target, source) end
    end
  end
  if not refusedBy then return 'open' end
  report('refused', refusedBy, case.target, source)
  return 'shut'
end
core.register_converters('decide', decide)

-- Failures of upstreams, for whoever owns the backend: what is reported is only an example of what happens, so it is bounded, by
-- thread and window: one for each backend, and for each account no more than a part of what the node may report.
local failureSeconds, failuresPerAccount, failuresInAll = 5, 50, 500
local failureWindow, failureCount, failedBackends, failedAccounts = 0, 0, {}, {}
local function mayReport(account, backend)
  local window = core.now().sec // failureSeconds
  if window ~= failureWindow then
    failureWindow, failureCount, failedBackends, failedAccounts = window, 0, {}, {}
  end
  local ofAccount = failedAccounts[account] or 0
  if failedBackends[backend] or ofAccount >= failuresPerAccount or failureCount >= failuresInAll then return false end
  failedBackends[backend], failedAccounts[account], failureCount = true, ofAccount + 1, failureCount + 1
  return true
end

-- '<termination state>|<error>|<TLS error>|<value of the backend>||<entry of the edge or route>'; see failures.ts. A TCP
-- connection that was once open may end in any way: only what kept it from opening is a failure.
core.register_converters('upstream_failed', function(input)
  local state, fault, tlsFault, dialed, entry = input:match('^(%a%a)|([%w_]*)|([^|]*)|(.-)||(.+)$')
  if not state or (sub(entry, 1, 7) == 'edgtcp_' and sub(state, 2) ~= 'C') or not state:find('^[SsP]') then return '' end
  local account, backend = entry:match('^[^|]+|([^|]+)|([^|]+)|')
  if account and mayReport(account, backend) then
    local faults = (fault == '' and '-' or fault) .. ' ' .. (tlsFault == '' and '-' or tlsFault)
    core.log(core.notice, ('gatehouse failed %s %s %s %s %s '):format(account, backend, dialed, state, faults))
  end
  return ''
end)

-- HAProxy finds the longest prefix in a tree, and has nothing alike for suffixes.
core.register_converters('reverse', string.reverse)

-- The spelling of paths.ts, for the look-up alone. normalize-uri has removed the plain dot segments before.
local function encodedByte(character) return ('%%%02X'):format(character:byte()) end
local function spelled(path)
  local text = path:gsub('%%(%x%x)', function(hex)
    local character = string.char(tonumber(hex, 16))
    -- Not yet encoded, what has to be: a mark that no path can have stands for its percent sign.
    return character:find("^[%w%-._~!$&'()*+,:;=@]$") and character or '\0' .. hex:upper()
  end)
  text = text:gsub("[^%w%-._~!$&'()*+,:;=@/%z]", encodedByte)
  return (text:gsub('%z', '%%'):gsub('//+', '/'))
end

-- As the server reads it that decodes and cuts the most: every separator counts as a slash, parameters are gone.
local function separated(path)
  return (spelled(path):gsub('%%2F', '/'):gsub('%%5C', '/'):gsub(';[^/]*', ''))
end
local function isDots(segment) return segment == '.' or segment == '..' end

core.register_converters('canonical_path', function(path)
  local segments, last = {}, ''
  local text = separated(path)
  for segment in text:gmatch('[^/]+') do
    if segment == '..' then segments[#segments] = nil elseif segment ~= '.' then segments[#segments + 1] = segment end
    last = segment
  end
  local isFolder = #segments > 0 and (text:sub(-1) == '/' or isDots(last))
  return '/' .. table.concat(segments, '/') .. (isFolder and '/' or '')
end)

-- As the server reads it that decodes no separator and cuts nothing. A path with encoded separators that has dot
-- segments or parameters too has more readings than these two: it becomes what no route has.
core.register_converters('literal_path', function(path)
  local text = spelled(path)
  if not text:find('%%2F') and not text:find('%%5C') then return text end
  for segment in separated(path):gmatch('[^/]+') do
    if isDots(segment) then return '|' end
  end
  return text:find(';', 1, true) and '|' or text
end)

-- Many servers take `_` for `-`, some take any other character for it too: a name in disguise is the name.
local function plain(name) return (name:lower():gsub('[^a-z0-9]', '-')) end
local function decoded(text) return (text:gsub('%%(%x%x)', function(hex) return string.char(tonumber(hex, 16)) end)) end

-- 'name=value' → both, or nothing when it cannot be read or would begin a line of its own.
local function headerOf(pair)
  local name, value = pair:match('^([^=]+)=(.*)$')
  if not name then return nil end
  name, value = decoded(name):lower(), decoded(value)
  if not name:find('^[%w!#$%%&\'*+%-.^_`|~]+$') or value:find('[^\x20-\x7e]') then return nil end
  return name, value
end

-- 'name=value&name=value|name&name': what is added, and what is removed. False when it cannot be read.
local operationsOf = remembered(4096, function(text)
  local added, removed = text:match('^([^|]*)|([^|]*)$')
  if not added then return false end
  local add, gone = {}, {}
  for pair in added:gmatch('[^&]+') do
    local name, value = headerOf(pair)
    if not name then return false end
    add[#add + 1] = { name, value }
    gone[plain(name)] = true
  end
  for name in removed:gmatch('[^&]+') do gone[plain(decoded(name))] = true end
  -- Clients send the same header names over and over: which of them have to go is worked out once for each list.
  local namesToDelete = remembered(64, function(names)
    local found, list = {}, {}
    for name in names:gmatch('[^,]+') do
      -- What clients said about themselves has gone by now: these are the edge's own.
      local isOurs = name:find('^x%-forwarded%-')
      if gone[plain(name)] and not isOurs and not found[name] then list[#list + 1] = name end
      found[name] = true
    end
    return list
  end)
  return { add = add, namesToDelete = namesToDelete }
end)
-- `asked` is '<names that the client sent, with commas>:<route>|…'. Nothing is set when nothing is known about the route.
local routeLength = #'edghtsrt_' + 26
core.register_action('headers', { 'http-req' }, function(txn)
  local asked, http = txn:get_var('txn.asked'), txn.http
  local colon = asked:find(':', 1, true) or 0
  local text = headers:lookup(sub(asked, colon + 1, colon + routeLength))
  local operations = text and operationsOf(text)
  if not operations then return end
  for _, name in ipairs(operations.namesToDelete(sub(asked, 1, colon - 1))) do http:req_del_header(name) end
  for _, each in ipairs(operations.add) do http:req_add_header(each[1], each[2]) end
  txn:set_var('txn.rewritten', 1)
end)

-- What Connection names belongs to the connection. Framing and Host stay: without them it is another request.
local kept = { host = true, ['content-length'] = true, ['transfer-encoding'] = true }
core.register_action('hop_by_hop', { 'http-req' }, function(txn)
  local http = txn.http
  local sent = http:req_get_headers()
  for _, line in pairs(sent['connection'] or {}) do
    for name in line:lower():gmatch('[^,%s]+') do
      if not kept[name] and sent[name] then http:req_del_header(name) end
    end
  end
  txn:set_var('txn.unhopped', 1)
end)

-- 'status|name=value&name=value|body in base64' (responses.ts) → what txn:reply takes. False when it cannot be read.
local function replyOf(text, converters)
  local status, list, encoded = text:match('^(%d%d%d)|([^|]*)|([^|]*)$')
  if not status then return false end
  local fields = {}
  for pair in list:gmatch('[^&]+') do
    local name, value = headerOf(pair)
    if not name then return false end
    fields[name] = { value }
  end
  local body = encoded == '' and '' or converters:b64dec(encoded)
  return body and { status = tonumber(status), headers = fields, body = body } or false
end
-- Answers with the response whose id is in txn.response. Does nothing when it is not known: the configuration then says
-- that nothing is there.
local replies, replyCount = {}, 0
core.register_action('respond', { 'http-req' }, function(txn)
  local text = responses:lookup(txn:get_var('txn.response'))
  if not text then return end
  -- By the whole text, so that what is remembered cannot outlive a change.
  local reply = replies[text]
  if reply == nil then
    -- Up to 24 KB each.
    if replyCount >= 128 then replies, replyCount = {}, 0 end
    reply = replyOf(text, txn.c)
    replies[text] = reply
    replyCount = replyCount + 1
  end
  txn:set_var('txn.responded', 1)
  if reply then txn:done(txn:reply(reply)) end
end)
