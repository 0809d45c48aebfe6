// An account of the vendor becomes a state file, which `apply` turns into an account of ours.
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { clientAuthority1, clientAuthority2 } from '../harness/client_authorities.ts'
import { gatehouse } from '../harness/command.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { testRun } from '../harness/test_run.ts'
import { cliFor } from './harness.ts'
import { startVendor, vendorToken } from './ngrok_account.ts'

const plane = await startControlPlane({ after })
const fileFor = (name: string) => join(testRun.folder, `import-${process.pid}-${name}`)
const tokenFile = fileFor('token')
writeFileSync(tokenFile, `${vendorToken}\n`)

const importFrom = (url: string, more: string[] = [], from = tokenFile) =>
  gatehouse(['import', 'ngrok', '--token-file', from, '--api-url', url, ...more])

test('what an account of the vendor has is the same after import and apply, or on the list of what is not', async (t) => {
  const { url, requests } = await startVendor(t)
  const out = fileFor('state.yaml')
  const { code, stdout, stderr } = await importFrom(url, ['--out', out])
  assert.deepEqual([code, stdout], [0, ''], stderr)
  assert.ok(requests.includes('/ip_policy_rules?limit=100') && requests.some((each) => each.includes('before_id')))
  const text = readFileSync(out, 'utf8')
  assert.ok(!(text + stderr).includes(vendorToken))

  const admin = await plane.newAccount()
  const cli = cliFor(plane, admin)
  await cli.ok(['state', 'apply', out])
  assert.equal((await cli(['state', 'apply', out])).stderr, 'Nothing to do.\n')

  const all = (await admin('GET', '/ip_policies')).body.ip_policies
  const isInline = ({ description }: Record<string, string>) => description?.startsWith('restrict-ips of ') === true
  const inline = all.filter(isInline)
  const policies = all.filter((each: Record<string, string>) => !isInline(each))
  const ofPolicy = (what: string) =>
    inline.find(({ description }: Record<string, string>) => description?.includes(what))
  const [ofRoute, ofMail] = [ofPolicy('route'), ofPolicy('TCP edge')]
  assert.deepEqual(
    policies.map(({ description, metadata }: Record<string, unknown>) => [description, metadata]),
    [
      ['partners', '{"team": "sales"}'],
      ['office', undefined],
    ],
  )
  const rulesOf = async (policy: { id: string }) =>
    (await admin('GET', `/ip_policies/${policy.id}/rules`)).body.rules.map(
      ({ action, cidr, description }: Record<string, string>) => [action, cidr, description].filter(Boolean).join(' '),
    )
  assert.deepEqual((await rulesOf(policies[0])).sort(), ['allow 198.51.100.0/24 host bits', 'allow 2001:db8::/32'])
  assert.deepEqual((await rulesOf(policies[1])).sort(), [
    'allow 203.0.113.0/24 everybody: "here"',
    'deny 203.0.113.66/32 the printer\n# not a comment',
  ])
  const [restriction, ...others] = (await admin('GET', '/ip_restrictions')).body.ip_restrictions
  assert.deepEqual(
    [restriction.type, restriction.enforced, restriction.ip_policies.length, others],
    ['endpoints', true, 2, []],
  )
  const [domain, ...more] = (await admin('GET', '/reserved_domains')).body.reserved_domains
  assert.deepEqual([domain.domain, more], ['imported.example.net', []])

  const [guarded, mail, db] = (await admin('GET', '/edges/tcp')).body.tcp_edges
  assert.deepEqual([mail.backend.enabled, mail.ip_restriction.mode], [true, 'warn'])
  assert.equal(mail.ip_restriction.ip_policies[0].id, ofMail.id)
  assert.deepEqual(await rulesOf(ofMail), ['allow 198.51.100.0/24'])
  assert.deepEqual(db.hostports, ['tcp.imported.example.net:20401'])
  assert.deepEqual([db.backend.enabled, db.ip_restriction.ip_policies[0].id], [true, policies[1].id])
  assert.equal(guarded.backend.enabled, false, 'an action of its traffic policy does not exist here')

  const [shop] = (await admin('GET', '/edges/https')).body.https_edges
  assert.deepEqual(shop.hostports, ['shop.imported.example.net:443'])
  const pems = [clientAuthority1, clientAuthority2]
  assert.deepEqual(
    [shop.mutual_tls.enabled, shop.mutual_tls.mode, shop.mutual_tls.certificate_authorities],
    [true, 'required', pems],
  )
  const routes = new Map(shop.routes.map((route: { match: string }) => [route.match, route]))
  const route = (match: string) => routes.get(match) as ReturnType<typeof JSON.parse>
  assert.deepEqual([...routes.keys()].sort(), [
    '/',
    '/admin',
    '/agents',
    '/api',
    '/closed',
    '/odd',
    '/old',
    '/sale',
    '/v2',
  ])
  const weighted = (await admin('GET', '/backends/weighted')).body.backends
  assert.deepEqual(Object.values(weighted[0].backends), [90, 10])
  assert.equal(weighted.length, 1)
  assert.equal(route('/sale').backend.backend.id, weighted[0].id)
  assert.deepEqual(route('/api').request_headers, {
    enabled: true,
    add: { 'X-Env': 'prod' },
    remove: ['Cookie', 'X-Client'],
  })
  assert.deepEqual(route('/api').response_headers, {
    enabled: true,
    add: { 'X-Frame-Options': 'DENY' },
    remove: ['X-Powered-By'],
  })
  assert.deepEqual(route('/api').user_agent_filter, {
    ...{ enabled: true, allow: [], deny: ['curl/', '(bad.bot'], mode: 'enforce' },
  })
  assert.deepEqual([route('/api').backend.enabled, route('/api').ip_restriction.enabled], [true, false])
  assert.deepEqual(
    ['/v2', '/old', '/closed', '/odd'].map((match) => route(match).backend.enabled),
    [true, true, true, false],
  )
  assert.deepEqual(
    route('/v2').ip_restriction.ip_policies.map(({ id }: { id: string }) => id),
    [ofRoute.id, policies[1].id],
  )
  assert.deepEqual((await rulesOf(ofRoute)).sort(), [
    'allow 2001:db8::/32',
    'deny 203.0.113.0/24',
    'deny 203.0.113.66/32',
  ])
  assert.deepEqual(route('/v2').rate_limit, {
    ...{ enabled: true, requests: 30, per_seconds: 90, key: 'header:x-api-key', mode: 'enforce', scope: 'cell' },
  })
  assert.deepEqual(route('/v2').request_headers, {
    ...{ enabled: true, add: { 'x-a': 'policy' }, remove: ['X-Secret', 'x-b', 'x-c'] },
  })
  assert.deepEqual(route('/v2').rewrite, { enabled: true, strip_prefix: '/v2', add_prefix: '/app', host: null })
  assert.deepEqual(route('/v2').response_headers.add, { 'x-frame-options': 'DENY' })
  assert.equal(route('/old').rate_limit.mode, 'warn')
  assert.deepEqual(route('/old').redirect, {
    ...{ enabled: true, to: 'https://new.example.net/moved', status_code: 301, keep_path: false, keep_query: false },
  })
  const closed = await admin('GET', `/backends/http_response/${route('/closed').backend.backend.id}`)
  assert.deepEqual([closed.body.status_code, closed.body.body], [503, 'Back at noon'])
  // What only signed-in people could reach must not be open, and must not fall to the wider route.
  assert.deepEqual([route('/admin').backend.enabled, route('/admin').ip_restriction.enabled], [false, true])
  assert.deepEqual([route('/agents').backend, route('/agents').ip_restriction.enabled], [null, true])
  const decided = await admin('POST', '/ip_checks', { route_id: route('/admin').id, ip: '203.0.113.66' })
  assert.equal(decided.body.allowed, false)
})

test('everything that is not imported is in the list, printed and at the top of the file', async (t) => {
  const { url } = await startVendor(t)
  const { stdout, stderr } = await importFrom(url)
  const printed = stderr
    .split('\n')
    .filter((line) => line.startsWith('  '))
    .map((line) => line.trim())
  const written = stdout
    .split('\n')
    .filter((line) => line.startsWith('# - '))
    .map((line) => line.slice(4))
  assert.deepEqual(written, printed)
  for (const expected of [
    /^\/event_subscriptions: .*not in the vendor's API/,
    /^IP policy rule .*two rules for 203\.0\.113\.66\/32/,
    /^IP restriction .*has no IP policies\. It is enforced there/,
    /^weighted backend bkdwd_\w+: left out, because its member bkdtg_/,
    /^tunnel group backend .*left out/,
    /^reserved domain .*shop\.ngrok\.app is a name of the vendor/,
    /^TCP edge \S+ \(db\): hostport 1\.tcp\.ngrok\.io:20401 is left out/,
    /^TCP edge \S+ \(guarded\): comes with its backend disabled.*an action of its traffic_policy/,
    /^HTTPS edge \S+ \(shop\): tls_termination is left out/,
    /^HTTPS edge \S+ \(shop\): hostport shop\.ngrok\.app:443 is left out/,
    /route path_prefix \/agents: comes without a backend/,
    /route path_prefix \/admin: comes with its backend disabled.*oauth/,
    /route path_prefix \/admin: what to do about oauth: Sign people in.*enabled: true/,
    /^TCP edge \S+ \(guarded\): deny of its traffic_policy is left out, because it depends on expressions.*Use an/,
    /route path_prefix \/odd: comes with its backend disabled.*an action of its traffic_policy/,
    /route path_prefix \/odd: deny of its traffic_policy is left out, because it depends on expressions/,
    /route path_prefix \/odd: jwt-validation of its traffic_policy is left out.*Verify tokens at the upstream/,
    /route path_prefix \/odd: rate-limit of its traffic_policy is left out, because its rate is not from 1 to 3600/,
    /route path_prefix \/odd: url-rewrite of its traffic_policy is left out, because it changes URLs by a pattern/,
    /route path_prefix \/odd: redirect of its traffic_policy is left out, because it changes a part of the URL/,
    /route path_prefix \/v2: compress-response of its traffic_policy is left out/,
    /route path_prefix \/v2: request header x-c is not added/,
    /route path_prefix \/v2: its rate limit counts in windows/,
    /route path_prefix \/api: compression is left out.*Compress responses at the upstream/,
    /route path_prefix \/api: request header X-Client is not added/,
    /route path_prefix \/api: request header X-Forwarded-For is not removed/,
    /route path_prefix \/api: response header X-Region is not added.*variable/,
    /route path_prefix \/api: response header Connection is not removed/,
    /^API key \S+ \(ci\\nrm -rf\): left out/,
  ])
    assert.ok(
      written.some((line) => expected.test(line)),
      `${expected} is not in\n${written.join('\n')}`,
    )
})

test('an edge with a route that cannot be matched here lets no one in', async (t) => {
  const answer = ({ url = '' }: { url?: string }) => {
    if (!url.startsWith('/edges/https')) return undefined
    const backend = { enabled: true, backend: { id: 'bkdst_2hrGzPLHppigkyy3AN8oHRBE001', uri: '' } }
    const routes = [
      { id: 'r2', match_type: 'path_prefix', match: '/a b', backend, ip_restriction: null },
      { id: 'r1', match_type: 'path_prefix', match: '/', backend, ip_restriction: null },
    ]
    return { status: 200, body: { https_edges: [{ id: 'e1', hostports: [], routes }], next_page_uri: null } }
  }
  const { url } = await startVendor(t, { answer })
  const { stdout } = await importFrom(url)
  assert.match(stdout, /route r2: left out/)
  assert.match(stdout, /match: \/\n\s+backend:\n\s+enabled: false/)
})

test('an edge whose clients cannot be verified here lets no one in', async (t) => {
  const backend = { enabled: true, backend: { id: 'bkdst_2hrGzPLHppigkyy3AN8oHRBE001', uri: '' } }
  const routes = [{ id: 'r1', match_type: 'path_prefix', match: '/', backend, ip_restriction: null }]
  const mutual_tls = { enabled: true, certificate_authorities: [{ id: 'ca_gone', uri: '' }] }
  const edge = { id: 'e1', hostports: [], mutual_tls, routes }
  const { url } = await startVendor(t, {
    answer: ({ url: asked = '' }) =>
      asked.startsWith('/edges/https')
        ? { status: 200, body: { https_edges: [edge], next_page_uri: null } }
        : undefined,
  })
  const { stdout } = await importFrom(url)
  assert.match(stdout, /mutual_tls is left out, because an authority must be a certificate/)
  assert.match(stdout, /match: \/\n\s+backend:\n\s+enabled: false/)
})

test('it waits as long as the vendor asks', async (t) => {
  const asked: number[] = []
  const busy = { status: 429, headers: { 'retry-after': '2' }, body: { msg: 'slow down' } }
  const once = await startVendor(t, {
    answer: ({ url = '' }) => {
      if (!url.startsWith('/backends/static')) return undefined
      return asked.push(Date.now()) === 1 ? busy : undefined
    },
  })
  const { code, stderr } = await importFrom(once.url)
  assert.equal(code, 0, stderr)
  const [first = 0, second = 0] = asked
  assert.ok(second - first >= 1_990, `asked again after ${second - first} ms`)
  assert.match(stderr, /answered 429; trying again in 2 s/)
  assert.equal(once.requests.filter((each) => each.startsWith('/backends/static')).length, 2)
})

test('nothing is written when the vendor refuses, and the token is never printed', async (t) => {
  const { url } = await startVendor(t)
  const wrong = fileFor('wrong')
  writeFileSync(wrong, 'another-secret')
  const out = fileFor('never.yaml')
  const refused = await importFrom(url, ['--out', out], wrong)
  assert.equal(refused.code, 4)
  assert.match(refused.stderr, /answered 401: no: Bearer …/)
  assert.ok(!refused.stderr.includes('another-secret'))
  assert.ok(!existsSync(out))
  for (const [text, options] of [
    ['two words', []],
    ['', []],
    [vendorToken, ['--api-url', 'http://api.example.com']],
    [vendorToken, ['--out', tokenFile]],
  ] as const) {
    writeFileSync(wrong, text)
    const { code, stderr } = await importFrom(url, [...options], wrong)
    assert.equal(code, 2, stderr)
    assert.ok(!text || !stderr.includes(text))
  }
  assert.equal(readFileSync(tokenFile, 'utf8'), `${vendorToken}\n`, 'an existing file stays as it is')
})

test('an answer in another form, a list without end and a redirect end the import', async (t) => {
  const rows = [{ id: 'ipp_1' }]
  for (const [sent, code, message] of [
    [{ status: 200, body: { rows } }, 3, /documented form/],
    [{ status: 200, body: { ip_policies: [{}], next_page_uri: null } }, 3, /documented form/],
    [{ status: 200, body: { ip_policies: rows, next_page_uri: '/ip_policies?before_id=ipp_1' } }, 3, /1000 pages/],
    [{ status: 302, headers: { location: 'http://127.0.0.1:1/' }, body: {} }, 3, /answered 302/],
  ] as const) {
    const { url } = await startVendor(t, { answer: () => ({ ...sent }) })
    const ended = await importFrom(url)
    assert.equal(ended.code, code, ended.stderr)
    assert.match(ended.stderr, message)
    assert.equal(ended.stdout, '')
  }
})
