-- Functions that HAProxy's own converters lack: checking IP policies, rewriting headers under names known only at run
-- time, and finding a wildcard host. Each thread loads its own copy, so no lock is shared. Anything missing or
-- unreadable counts as a denial: the configuration lets only the word 'open' through.

-- The parts of an edge's or route's value, in order and separated by commas (maps/codec.ts).
local partNames = ...
local folder = os.getenv('GATEHOUSE_FOLDER')
-- Limit per thread for policies, and again for rules. Beyond it, the least recently used half is dropped first.
local cacheBytes = tonumber(os.getenv('GATEHOUSE_POLICY_CACHE_BYTES')) or 64 * 1024 * 1024
local cacheSeconds = 600

local function map(name)
  return Map.new(folder .. '/maps/' .. name .. '.map', Map._str)
end
local policies, restrictions, headers = map('policy'), map('restrictions'), map('headers')
local responses = map('response')

local unpack, ult, sub = string.unpack, math.ult, string.sub

-- Memoizes a pure function of its argument, and starts over when full. Bounded in bytes: a result takes about as much as
-- its argument, which Lua may hold in pieces too.
local function remembered(mostBytes, work)
  local answers, bytes = {}, 0
  return function(argument)
    local answer = answers[argument]
    if answer ~= nil then return answer end
    answer = work(argument)
    if answer == nil then return nil end
    bytes = bytes + 3 * #argument + 256
    if bytes > mostBytes then answers, bytes = {}, 3 * #argument + 256 end
    answers[argument] = answer
    return answer
  end
end
local megabyte = 1024 * 1024

-- Files of address ranges, named by their hash: a header, and records that begin with the first address of a range. In
-- policies (policy_file.ts), each record has a verdict; in rule files (rule_file.ts), it has the deciding rule.
local policyLayout = { mark = 'GHP1', head = 12, size4 = 5, size6 = 17 }
local ruleLayout = { mark = 'GHR1', head = 28, size4 = 20, size6 = 32 }
local function headOf(layout, head, bytes)
  if #head ~= layout.head or sub(head, 1, 4) ~= layout.mark then return nil end
  local n4, n6 = unpack('>I4I4', head, layout.head - 7)
  if bytes ~= layout.head + layout.size4 * n4 + layout.size6 * n6 then return nil end
  return { n4 = n4, n6 = n6, bytes = bytes, account = sub(head, 5, 20) }
end

-- Finds the last record that begins at or below an address. Returns the end of the record in the file, or nil. `data` is
-- a string, or an open file that is searched on disk.
local function bytesAt(data, first, size)
  if type(data) == 'string' then return data, first end
  data:seek('set', first - 1)
  return data:read(size), 1
end
local function place4(data, first, size, count, address)
  local low, high = 0, count
  while low < high do
    local middle = (low + high) // 2
    local bytes, at = bytesAt(data, first + size * middle, 4)
    if unpack('>I4', bytes, at) <= address then low = middle + 1 else high = middle end
  end
  return low
end
local function place6(data, first, size, count, upper, lower)
  local low, high = 0, count
  while low < high do
    local middle = (low + high) // 2
    local bytes, at = bytesAt(data, first + size * middle, 16)
    local a, b = unpack('>i8i8', bytes, at)
    if ult(upper, a) or (upper == a and ult(lower, b)) then high = middle else low = middle + 1 end
  end
  return low
end
local function recordOf(layout, file, data, source)
  local first, place, size = layout.head + 1, 0, 0
  if #source == 8 then
    size = layout.size4
    place = place4(data, first, size, file.n4, tonumber(source, 16))
  else
    first, size = first + layout.size4 * file.n4, layout.size6
    place = place6(data, first, size, file.n6, tonumber(sub(source, 1, 16), 16), tonumber(sub(source, 17), 16))
  end
  if place == 0 then return nil end
  -- The rest of the record, after the address.
  local skipped = #source // 2
  local bytes, at = bytesAt(data, first + size * (place - 1) + skipped, size - skipped)
  return sub(bytes, at, at + size - skipped - 1)
end

-- Two generations instead of a list ordered by use: a hit costs one table look-up, and nothing is sorted when the cache
-- is full. Reading a file blocks all requests of the thread, so a thread reads no more bytes of large files per minute
-- than it can cache, and searches other files on disk with a few small reads.
local smallFile = 64 * 1024
local function rangeFiles(layout, mostBytes)
  local young, old, youngBytes, turned = {}, {}, 0, 0
  local readBytes, readSince = 0, 0
  local function keep(hash, file, now)
    if youngBytes + file.bytes > mostBytes / 2 or now - turned > cacheSeconds then
      old, young, youngBytes, turned = young, {}, 0, now
    end
    young[hash] = file
    youngBytes = youngBytes + file.bytes
  end
  -- Returns whether the file is usable, the record if found, and for a rule file its account.
  local function find(hash, source)
    local handle = hash:match('^%x+$') and io.open(folder .. '/policies/' .. hash, 'rb')
    if not handle then return false end
    -- Unbuffered: a search needs a few bytes here and there, not the blocks around them.
    handle:setvbuf('no')
    local bytes, whole = handle:seek('end'), nil
    if bytes then
      handle:seek('set', 0)
    else
      -- A pipe has no size. Tests use one to block a thread.
      whole = handle:read('a')
      bytes = #whole
    end
    local file = headOf(layout, sub(whole or handle:read(layout.head) or '', 1, layout.head), bytes)
    if not file then
      handle:close()
      return false
    end
    local now = core.now().sec
    if now - readSince >= 60 then readBytes, readSince = 0, now end
    local data = handle
    if bytes <= smallFile or readBytes + bytes <= mostBytes / 2 then
      if bytes > smallFile then readBytes = readBytes + bytes end
      handle:seek('set', 0)
      file.data = whole or handle:read(bytes)
      data = file.data
      keep(hash, file, now)
    end
    local record = recordOf(layout, file, data, source)
    handle:close()
    return true, record, file.account
  end
  return function(hash, source)
    local file = young[hash]
    if not file then
      file = old[hash]
      -- Missing files are not cached, because the agent may still write them.
      if not file then return find(hash, source) end
      keep(hash, file, core.now().sec)
    end
    return true, recordOf(layout, file, file.data, source), file.account
  end
end
local policyRecord, ruleRecord = rangeFiles(policyLayout, cacheBytes), rangeFiles(ruleLayout, cacheBytes)

-- Keyed by the hash in the file name. A changed policy is another file, so a cached verdict cannot be stale.
local verdicts, verdictCount = {}, 0
local function verdictOf(hash, source)
  local known = verdicts[hash]
  local verdict = known and known[source]
  if verdict then return verdict end
  local isUsable, record = policyRecord(hash, source)
  if not isUsable then return nil end
  verdict = record and record:byte() or 0
  if verdictCount >= 16384 then verdicts, verdictCount, known = {}, 0, nil end
  if not known then
    known = {}
    verdicts[hash] = known
  end
  known[source] = verdict
  verdictCount = verdictCount + 1
  return verdict
end

-- '<hash of the policy>.<hash of its rules>'; an older control plane sends no rules.
local filesOf = remembered(4 * megabyte, function(text)
  local policy, rules = text:match('^(%x+)%.?(%x*)$')
  return policy and { policy = policy, rules = rules ~= '' and rules or nil } or false
end)

-- Hits counted since the last hand-over to the agent: by account, and by rule id plus the first letter of the outcome
-- (allowed, refused, warned). Bounded while no agent runs, and per account, so that one account cannot displace all
-- others.
local hitsPerAccount, hitsInAll = 50000, 200000
local hits, hitCount, lostHits = {}, 0, 0
local function countHit(account, hit)
  local ofAccount = hits[account]
  if not ofAccount then
    ofAccount = { count = 0 }
    hits[account] = ofAccount
  end
  local known = ofAccount[hit]
  if not known then
    if ofAccount.count >= hitsPerAccount or hitCount >= hitsInAll then
      lostHits = lostHits + 1
      return
    end
    ofAccount.count = ofAccount.count + 1
    hitCount = hitCount + 1
  end
  ofAccount[hit] = (known or 0) + 1
end

local function hexadecimal(bytes) return ('%02x'):rep(16):format(bytes:byte(1, 16)) end
local deciders, deciderCount = {}, 0
-- Returns the rule's id in hexadecimal. Nil if no rule decided, or if it is unknown.
local function countDecision(rules, source, outcome)
  if not rules then return nil end
  local known = deciders[rules]
  local decider = known and known[source]
  if not decider then
    -- The ids of the rule and its account take 16 bytes each.
    local _, rule, account = ruleRecord(rules, source)
    if not rule then return nil end
    if deciderCount >= 16384 then deciders, deciderCount, known = {}, 0, nil end
    if not known then
      known = {}
      deciders[rules] = known
    end
    decider = { account = account, a = rule .. 'a', r = rule .. 'r', w = rule .. 'w', name = hexadecimal(rule) }
    known[source] = decider
    deciderCount = deciderCount + 1
  end
  countHit(decider.account, decider[outcome])
  return decider.name
end

-- Unique per thread and process.
local sender = ('%x-%d-%s'):format(os.time(), core.thread, tostring(hits):match('%x+$'))
local batchNumber, batch = 0, nil
-- Some of the hits, in the format of rule_counts.ts. They stay the current batch until the agent confirms it.
local function nextBatch()
  local lines, count = {}, 0
  for account, ofAccount in pairs(hits) do
    lines[#lines + 1] = 'a' .. hexadecimal(account)
    for hit, times in pairs(ofAccount) do
      if hit ~= 'count' then
        if count >= 2000 then break end
        count = count + 1
        lines[#lines + 1] = hexadecimal(hit) .. sub(hit, 17) .. ' ' .. times
        ofAccount[hit] = nil
        ofAccount.count = ofAccount.count - 1
        hitCount = hitCount - 1
      end
    end
    if ofAccount.count == 0 then hits[account] = nil end
    if count >= 2000 then break end
  end
  if count == 0 then return nil end
  batchNumber = batchNumber + 1
  local head = sender .. ' ' .. batchNumber .. (lostHits > 0 and ' ' .. lostHits or '')
  lostHits = 0
  return { number = batchNumber, text = head .. '\n' .. table.concat(lines, '\n') .. '\nend\n' }
end
local function handOver()
  batch = batch or nextBatch()
  if not batch then return false end
  local socket = core.tcp()
  socket:settimeout(2)
  local isKept = socket:connect('unix@' .. folder .. '/rules.sock')
    and socket:send(batch.text)
    and socket:receive('*l') == 'kept ' .. batch.number
  socket:close()
  if isKept then batch = nil end
  return isKept
end
core.register_task(function()
  while true do
    core.msleep(500)
    -- Without an agent, all hits stay here.
    repeat local isFine, isKept = pcall(handOver) until not isFine or not isKept
  end
end)

-- The policies of a set count as one: any deny wins over every allow, and an address that no policy allows is denied.
-- Returns the rules of the deciding policy, if a rule decides, and the policy that allows or denies. If none allows the
-- address, the policy is '-', or the only one of the set.
local function allows(set, source)
  local allowed, rules, policy = false, nil, nil
  for index = 1, #set do
    local files = filesOf(policies:lookup(set[index]) or '')
    local verdict = files and verdictOf(files.policy, source)
    if verdict == 1 then
      if not allowed then allowed, rules, policy = true, files.rules, set[index] end
    elseif verdict ~= 0 then
      return false, verdict and files.rules, set[index]
    end
  end
  return allowed, rules, policy or #set == 1 and set[1] or '-'
end

local function parseSet(text)
  local set = {}
  for id in text:gmatch('[^+]+') do set[#set + 1] = id end
  return set
end

-- Converts an IPv4-mapped IPv6 address to IPv4. Nil if it is neither.
local mapped = ('0'):rep(20) .. 'FFFF'
local function plainSource(source)
  if #source == 32 and sub(source, 1, 24) == mapped then source = sub(source, 25) end
  return (#source == 8 or #source == 32) and source or nil
end

-- '<source in hex>|<files of a policy>' → 'open' and the rule that allows it, as in 'open +0198…', or anything else.
-- Evaluates one policy, if it is the only one that counts. On any other result the caller also asks `decide`, which then
-- counts the hit.
local clearedBy = remembered(12 * megabyte, function(input)
  local source, text = input:match('^(%x+)|([%x.]+)$')
  source = source and plainSource(source)
  local files = source and filesOf(text)
  local verdict = files and verdictOf(files.policy, source)
  -- The file may still arrive, so nil is not memoized.
  return verdict and { allows = verdict == 1, rules = files.rules, source = source }
end)
core.register_converters('verdict', function(input)
  local case = clearedBy(input)
  if not case then return nil end
  if not case.allows then return 'shut' end
  local rule = countDecision(case.rules, case.source, 'a')
  return rule and 'open +' .. rule or 'open'
end)

-- Builds a pattern that captures these parts of an edge's or route's value, in the order of the value.
local function valueWith(...)
  local wanted, patterns = {}, {}
  for _, name in ipairs({ ... }) do wanted[name] = true end
  for name in partNames:gmatch('[^,]+') do
    patterns[#patterns + 1] = wanted[name] and '([^|]*)' or '[^|]*'
    wanted[name] = nil
  end
  assert(next(wanted) == nil, 'a part of a value has another name')
  return table.concat(patterns, '|') .. '$'
end

-- '<source in hex>|<value of an edge or route>': the case to decide. With ? before them, its policies only warn. False
-- if unreadable.
local casePattern = '^(%x+)|' .. valueWith('target', 'account', 'policies')
local caseOf = remembered(8 * megabyte, function(input)
  local source, target, account, set = input:match(casePattern)
  source = source and plainSource(source)
  if not source then return false end
  local isEnforced = sub(set, 1, 1) ~= '?'
  if not isEnforced then set = sub(set, 2) end
  return { source = source, target = target, account = account, isEnforced = isEnforced, set = set ~= 'open' and parseSet(set) }
end)

-- 'ipx_1!ipp_1+ipp_2 ipx_2?ipp_3', with ! for enforced and ? for warning only, or 'none'. False if unreadable.
local restrictionsOf = remembered(4 * megabyte, function(text)
  local list = {}
  if text == 'none' then return list end
  for each in text:gmatch('%S+') do
    local id, kind, set = each:match('^([%w_]+)([!?])([%w_+]*)$')
    if not id then return false end
    list[#list + 1] = { id = id, isEnforced = kind == '!', set = parseSet(set) }
  end
  return list
end)

-- → 'open' or 'shut', then the deciders for the log line (read_line.ts): who refused or else allowed, and who warned, as
-- in 'shut !ipx_1:ipp_1:<rule in hex> ?ipx_2:ipp_2:-'. '+' marks who allowed; '-' stands for the edge's or route's own
-- policies, and for no deciding rule. Unreadable input gives 'shut' alone.
local function decide(input)
  local case = caseOf(input)
  if not case then return 'shut' end
  local source, refusedBy, allowedBy, warnings = case.source, nil, nil, ''
  if case.set then
    local isAllowed, rules, policy = allows(case.set, source)
    local by = '-:' .. policy .. ':' .. (countDecision(rules, source, isAllowed and 'a' or case.isEnforced and 'r' or 'w') or '-')
    if not isAllowed and not case.isEnforced then
      warnings = ' ?' .. by
    elseif not isAllowed then
      refusedBy = by
    elseif case.isEnforced then
      allowedBy = by
    end
  end
  -- An account without an entry is shut: its unknown restrictions might refuse.
  local text = restrictions:lookup(case.account)
  local list = text and restrictionsOf(text)
  if not list then return 'shut' end
  for _, each in ipairs(list) do
    local isAllowed, rules, policy = allows(each.set, source)
    local rule = countDecision(rules, source, isAllowed and 'a' or each.isEnforced and 'r' or 'w')
    local by = each.id .. ':' .. policy .. ':' .. (rule or '-')
    if not isAllowed and not each.isEnforced then
      warnings = warnings .. ' ?' .. by
    elseif not isAllowed then
      refusedBy = refusedBy or by
    elseif each.isEnforced then
      allowedBy = allowedBy or by
    end
  end
  if refusedBy then return 'shut !' .. refusedBy .. warnings end
  return (allowedBy and 'open +' .. allowedBy or 'open') .. warnings
end
core.register_converters('decide', decide)

-- HAProxy finds the longest prefix in a tree, but has no such search for suffixes.
core.register_converters('reverse', string.reverse)

-- Whether the client may request the path under every reading of it. Returns 'fine', 'ambiguous', or the refusing
-- decision and the entry of its route, separated by a semicolon. Account restrictions are the same for all routes of an
-- edge and were checked before.
local routes, guards = Map.new(folder .. '/maps/route.map', Map._beg), Map.new(folder .. '/maps/guard.map', Map._beg)
local routePattern = '^' .. valueWith('target', 'depth', 'variants', 'policies')
local routeOf = remembered(8 * megabyte, function(entry)
  local target, depth, variants, set = entry:match(routePattern)
  if not target then return false end
  local isRestricted = set ~= 'open' and sub(set, 1, 1) ~= '?'
  return { target = target, depth = tonumber(depth), isGuarded = variants == '-', set = isRestricted and parseSet(set) }
end)
local function refusal(entry, source)
  local route = routeOf(entry)
  if not route then return 'shut' end
  local isAllowed, rules, policy = allows(route.set, source)
  return not isAllowed and 'shut !-:' .. policy .. ':' .. (countDecision(rules, source, 'r') or '-') or nil
end
core.register_fetches('other_readings', function(txn)
  local edge, source = txn:get_var('txn.edge'), plainSource(txn:get_var('txn.source'))
  local asked = { [routeOf(txn:get_var('txn.entry')).target] = true }
  local readings = source and paths.readings(txn.sf:path())
  if not readings then return 'ambiguous' end
  local function ask(entry)
    local route = entry and routeOf(entry)
    if not route or not route.set or not route.isGuarded or asked[route.target] then return nil end
    asked[route.target] = true
    return refusal(entry, source)
  end
  for _, reading in ipairs(readings) do
    local found = routes:lookup(edge .. reading .. '/|')
    local guard = guards:lookup(edge .. paths.folded(reading) .. '/|')
    local refused = ask(found)
    if refused then return refused .. ';' .. found end
    -- A closer match without restrictions stays open.
    if guard and found and routeOf(guard).depth < routeOf(found).depth then guard = nil end
    refused = ask(guard)
    if refused then return refused .. ';' .. guard end
  end
  return 'fine'
end)

-- '<bytes>|<strip>|<add>|<host>|.|<path>' (module_entries.ts).
core.register_converters('rewritten_path', function(input)
  local bytes, strip, add, path = input:match('^(%d+)|(/[^|]*)|([^|]*)|[^|]*|%.|(/.*)$')
  return bytes and tonumber(bytes) == #strip and (paths.rewritten(path, strip, add) or 'ambiguous')
end)

-- Many servers treat `_` as `-`, and some treat any other character so: a disguised name counts as the name.
local function plain(name) return (name:lower():gsub('[^a-z0-9]', '-')) end
local function decoded(text) return (text:gsub('%%(%x%x)', function(hex) return string.char(tonumber(hex, 16)) end)) end

-- 'name=value' → name and value, or nothing if it is unreadable or would start a line of its own.
local function headerOf(pair)
  local name, value = pair:match('^([^=]+)=(.*)$')
  if not name then return nil end
  name, value = decoded(name):lower(), decoded(value)
  if not name:find('^[%w!#$%%&\'*+%-.^_`|~]+$') or value:find('[^\x20-\x7e]') then return nil end
  return name, value
end

-- 'name=value&name=value|name&name': headers to add, and names to remove. False if unreadable.
local operationsOf = remembered(16 * megabyte, function(text)
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
  return { add = add, gone = gone }
end)
-- Clients send the same header names over and over, so the names to delete are memoized for each list. Clients also
-- choose the names, so long lists are not stored, and all lists share one bound.
local lists, listBytes = {}, 0
local function namesToDelete(operations, names)
  local known = lists[operations]
  local list = known and known[names]
  if list then return list end
  local found = {}
  list = {}
  for name in names:gmatch('[^,]+') do
    -- The client's own forwarding headers are gone by now; these are the edge's.
    local isOurs = name:find('^x%-forwarded%-')
    if operations.gone[plain(name)] and not isOurs and not found[name] then list[#list + 1] = name end
    found[name] = true
  end
  if #names > 1024 then return list end
  listBytes = listBytes + 2 * #names + 512
  if listBytes > 8 * megabyte then lists, listBytes, known = {}, 2 * #names + 512, nil end
  if not known then
    known = {}
    lists[operations] = known
  end
  known[names] = list
  return list
end
-- `asked` is '<header names of the client, separated by commas>:<route>|…'. Sets nothing for an unknown route.
local routeLength = #'edghtsrt_' + 26
core.register_action('headers', { 'http-req' }, function(txn)
  local asked, http = txn:get_var('txn.asked'), txn.http
  local colon = asked:find(':', 1, true) or 0
  local text = headers:lookup(sub(asked, colon + 1, colon + routeLength))
  local operations = text and operationsOf(text)
  if not operations then return end
  for _, name in ipairs(namesToDelete(operations, sub(asked, 1, colon - 1))) do http:req_del_header(name) end
  for _, each in ipairs(operations.add) do http:req_add_header(each[1], each[2]) end
  txn:set_var('txn.rewritten', 1)
end)

-- '<mode>|<allow>|<deny>|<methods>|<value to filter>' (module_entries.ts). Its lists are encoded like headers, separated
-- by &.
local function filterOf(input)
  local allow, deny, judged = input:match('^%a+|([^|]*)|([^|]*)|[^|]*|(.*)$')
  return allow, deny, judged
end
local function listed(list, isMatch)
  for entry in list:gmatch('[^&]+') do
    if isMatch(decoded(entry)) then return true end
  end
  return false
end
-- An allow list must have a match; a deny list must not.
local function judge(isMatchOf)
  return remembered(4 * megabyte, function(input)
    local allow, deny, judged = filterOf(input)
    if not allow then return nil end
    local isMatch = isMatchOf(judged)
    if allow ~= '' and not listed(allow, isMatch) then return 'no' end
    return listed(deny, isMatch) and 'no' or 'pass'
  end)
end
core.register_converters('method_passes', judge(function(method)
  return function(entry) return entry == method end
end))
-- Both in lower case. Compares plain text, never a tenant's pattern.
core.register_converters('user_agent_passes', judge(function(agent)
  return function(entry) return agent:find(entry, 1, true) ~= nil end
end))

-- '<value of the module>@<header lines>' → the single value of the header that a rate_limit counts by. Nothing if the
-- header is missing or empty, or if servers could use another line for it: a client could vary the counted one. With `!`
-- for `@`, names may be disguised.
core.register_converters('rate_value', function(input)
  local name, kind, first = input:match('|header:([%w-]+)|[^@!]*([@!])()')
  if not name then return '' end
  local start, found, value = name:lower() .. ': ', 0, ''
  local from, to = input:find(start, first, true)
  while from do
    if from == first or input:byte(from - 1) == 10 then found, value = found + 1, input:match('^[^\r\n]*', to + 1) end
    from, to = input:find(start, to, true)
  end
  if kind == '!' then
    local wanted, lines = plain(name), 0
    for each in input:gmatch('([^:\r\n]+):[^\r\n]*', first) do
      if plain(each) == wanted then lines = lines + 1 end
    end
    if lines ~= 1 then return '' end
  end
  return found == 1 and value or ''
end)

-- Headers named in Connection belong to the connection. Framing and Host stay: without them it is another request.
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

-- 'status|name=value&name=value|body in base64' (responses.ts) → the argument of txn:reply. False if unreadable.
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
-- Sends the response whose id is in txn.response. If it is unknown, the configuration answers that nothing is there; any
-- other failure gives an error.
local replies, replyCount = {}, 0
core.register_action('respond', { 'http-req' }, function(txn)
  local text = responses:lookup(txn:get_var('txn.response'))
  if not text then
    txn:set_var('txn.unknown_response', 1)
    return
  end
  -- Keyed by the whole text, so that a changed response is not answered from the cache.
  local reply = replies[text]
  if reply == nil then
    -- Each entry takes up to 24 KB.
    if replyCount >= 128 then replies, replyCount = {}, 0 end
    reply = replyOf(text, txn.c)
    replies[text] = reply
    replyCount = replyCount + 1
  end
  if not reply then return end
  txn:set_var('txn.replied', 1)
  txn:done(txn:reply(reply))
end)

-- Tells the agent when a server of a native backend goes up or down, in the format of HAProxy's own log (see
-- native/health.ts). Every thread loads this file; one of them is enough.
if core.thread <= 1 then
  core.event_sub({ 'SERVER_UP', 'SERVER_DOWN' }, function(event, server)
    core.info(('Server %s/%s is %s '):format(server.proxy_name, server.name, event == 'SERVER_UP' and 'UP' or 'DOWN'))
  end)
end
