-- Spells paths for the look-up, and finds the other ways in which a server could read them (docs/adr/0033). Loaded
-- before gatehouse.lua, which uses `paths`.

paths = {}

local sub = string.sub

-- Same spelling as route_keys.ts. normalize-uri has already removed the plain dot segments.
local function encodedByte(character) return ('%%%02X'):format(character:byte()) end
local function plainOrEncoded(hex)
  local character = string.char(tonumber(hex, 16))
  -- Marks characters to encode with a byte that no path contains; the mark becomes the percent sign later.
  return character:find("^[%w%-._~!$&'()*+,:;=@]$") and character or '\0' .. hex:upper()
end
local function spelled(path)
  local text = path:gsub('%%(%x%x)', plainOrEncoded)
  text = text:gsub("[^%w%-._~!$&'()*+,:;=@/%z]", encodedByte)
  return (text:gsub('%z', '%%'))
end
local function merged(path) return (path:gsub('//+', '/')) end

-- The reading of a server that decodes and cuts the most: every separator counts as a slash, and parameters are removed.
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

-- The reading of a server that decodes no separator and cuts nothing. A path with encoded separators together with dot
-- segments or parameters has more readings than these two: it becomes a path that no route has.
core.register_converters('literal_path', function(path)
  local text = merged(spelled(path))
  if not text:find('%%2F') and not text:find('%%5C') then return text end
  for segment in separated(path):gmatch('[^/]+') do
    if isDots(segment) then return '|' end
  end
  return text:find(';', 1, true) and '|' or text
end)

-- Removes dot segments. An empty segment counts as a folder here; servers that merge slashes first are covered by two
-- steps.
local function withoutDots(path)
  local segments = {}
  local last = ''
  for segment in sub(path, 2):gmatch('[^/]*') do
    if segment == '..' then segments[#segments] = nil elseif segment ~= '.' then segments[#segments + 1] = segment end
    last = segment
  end
  if isDots(last) then segments[#segments + 1] = '' end
  return '/' .. table.concat(segments, '/')
end

local function hasDots(path) return path:find('/%.%.?/') or path:find('/%.%.?$') end

-- Windows opens `admin` for `admin.` and `admin `.
local function withoutTails(segment)
  if segment:find('^%.*$') then return segment end
  repeat
    local before = segment
    segment = segment:gsub('%.+$', ''):gsub('%%20$', '')
  until segment == before
  return segment
end

local scripts = {}
for name in ('php php3 php4 php5 php7 php8 phtml cgi fcgi pl py rb asp aspx'):gmatch('%S+') do scripts[name] = true end
local function withoutScript(segment)
  local name = segment:match('%.(%w+)$')
  return name and scripts[name:lower()] and '' or nil
end

-- Shortens overlong encodings of two, three or four bytes to the plain character.
local function withoutOverlong(path)
  local function short(high, low)
    local code = (tonumber(high, 16) & 31) << 6 | tonumber(low, 16) & 63
    return code < 128 and ('%%%02X'):format(code) or nil
  end
  local text = path:gsub('%%F0%%80%%(8[01])%%([89AB]%x)', short):gsub('%%E0%%(8[01])%%([89AB]%x)', short)
  return spelled((text:gsub('%%(C[01])%%([89AB]%x)', short)))
end

-- What some servers do to a path before they compare it: a pattern that shows whether the step applies, and the step. A
-- server may take several steps, in any order, and some of them twice.
local steps = {
  -- Decode once more, for a server behind another proxy that has decoded already.
  { '%25', function(path) return spelled((path:gsub('%%25(%x%x)', '%%%1'))) end },
  { '%C', withoutOverlong },
  { '%E0%8', withoutOverlong },
  { '%F0%80', withoutOverlong },
  { '%2F', function(path) return (path:gsub('%%2F', '/')) end },
  { '%5C', function(path) return (path:gsub('%%5C', '/')) end },
  -- Remove parameters: from each segment, from the last one, or as the end of the path.
  { ';', function(path) return (path:gsub(';[^/]*', '')) end },
  { ';', function(path) return (path:gsub(';[^/]*$', '')) end },
  { ';', function(path) return (path:gsub(';.*$', '')) end },
  -- Cut at the end of a string, of a path, and of a query.
  { '%00', function(path) return (path:gsub('%%00.*$', '')) end },
  { '%3F', function(path) return (path:gsub('%%3F.*$', '')) end },
  { '%23', function(path) return (path:gsub('%%23.*$', '')) end },
  -- URL parsers remove tabs and line ends; some servers remove all control characters.
  { '%0', function(path) return (path:gsub('%%0[9AD]', '')) end },
  { '%', function(path) return (path:gsub('%%[01]%x', ''):gsub('%%7F', '')) end },
  { '//', merged },
  -- A network-path reference: the part after two slashes is a host.
  { '//', function(path) return (path:gsub('^//+[^/]*', '')) end },
  { '/.', function(path) return hasDots(path) and withoutDots(path) or path end },
  { '.', function(path) return (path:gsub('[^/]+', withoutTails)) end },
  { '%20', function(path) return (path:gsub('[^/]+', withoutTails)) end },
  -- In /index.php/admin, the program index.php sees /admin.
  { '.', function(path) return (path:gsub('/([^/]+)%f[/]', withoutScript)) end },
  -- ASP.NET sessions without a cookie: /(S(…))/admin.
  { '/(', function(path) return (path:gsub('/%(%a%([^/]*%)%)%f[/]', '')) end },
}

-- All paths that a server could read this path as. Nil if there are too many: no browser sends such a path, and looking
-- all of them up would be work that a client can cause.
local maxReadings, maxBytes = 64, 64 * 1024
function paths.readings(path)
  local first = spelled(path)
  local found, list, bytes, index = { [first] = true }, { first }, #first, 1
  while list[index] do
    for _, step in ipairs(steps) do
      if list[index]:find(step[1], 1, true) then
        local text = step[2](list[index])
        if sub(text, 1, 1) ~= '/' then text = '/' .. text end
        if not found[text] then
          found[text] = true
          list[#list + 1] = text
          bytes = bytes + #text
          if #list > maxReadings or bytes > maxBytes then return nil end
        end
      end
    end
    index = index + 1
  end
  return list
end

-- Latin, Greek and Cyrillic capitals of two UTF-8 bytes, by their first byte: the range of the second byte, the first
-- byte of the lower-case letter, and the offset of its second byte.
local capitals = {
  c3 = { { 0x80, 0x96, 0xc3, 0x20 }, { 0x98, 0x9e, 0xc3, 0x20 } },
  ce = { { 0x91, 0x9f, 0xce, 0x20 }, { 0xa0, 0xab, 0xcf, -0x20 } },
  d0 = { { 0x80, 0x8f, 0xd1, 0x10 }, { 0x90, 0x9f, 0xd0, 0x20 }, { 0xa0, 0xaf, 0xd1, -0x20 } },
}
local function smallLetter(first, second)
  local byte = tonumber(second, 16)
  for _, range in ipairs(capitals[first] or {}) do
    if byte >= range[1] and byte <= range[2] then return ('%%%02x%%%02x'):format(range[3], byte + range[4]) end
  end
end
-- Letters whose other case is i, s or k.
local ascii = { ['%c4%b0'] = 'i', ['%c4%b1'] = 'i', ['%c5%bf'] = 's', ['%e2%84%aa'] = 'k' }

-- The key of route_keys.ts that all spellings share that differ in case or in trailing slashes.
function paths.folded(path)
  local text = path:lower()
  if text:find('%', 1, true) then
    text = text:gsub('%%(c[3e])%%([89ab]%x)', smallLetter):gsub('%%(d0)%%([89ab]%x)', smallLetter)
    text = text:gsub('%%c4%%b[01]', ascii):gsub('%%c5%%bf', ascii):gsub('%%e2%%84%%aa', ascii)
  end
  return (text:gsub('/+$', ''))
end

-- Compares segments in their look-up spelling. Nil if the path does not have the prefix.
local function withoutPrefix(path, strip)
  local at = 1
  for segment in strip:gmatch('[^/]+') do
    local found, after = path:match('^/([^/]*)()', at)
    if not found or spelled(found) ~= segment then return nil end
    at = after
  end
  return sub(path, at)
end

-- The path for the upstream of a route that rewrites it. Nil if servers could disagree on where the prefix ends, or
-- could read a path outside of the added one. normalize-uri has already removed the plain dot segments.
function paths.rewritten(path, strip, add)
  local rest = withoutPrefix(path, strip)
  if not rest and withoutPrefix(merged(separated(path)), strip) then return nil end
  rest = '/' .. (rest or path):gsub('^/+', '')
  -- Some servers read it as a network-path reference, whose host the client would choose.
  if separated(rest):find('^//') then return nil end
  if add == '' then return rest end
  local readings = paths.readings('/-' .. rest)
  for _, reading in ipairs(readings or {}) do
    if reading ~= '/-' and sub(reading, 1, 3) ~= '/-/' then return nil end
  end
  return readings and add .. rest
end
