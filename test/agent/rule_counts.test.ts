import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import {
  type RuleCount,
  readBatch,
  receiveRuleCounts,
  ruleCountSocket,
} from '../../src/agent/haproxy/lines/rule_counts.ts'
import { policyFolder } from '../../src/agent/haproxy/settings.ts'
import { encodeRules, ruleFileFault } from '../../src/distribution/rule_file.ts'
import { type Id, newId, toId, toUuid, uuidOfHex } from '../../src/kernel/ids.ts'
import { parseAddress } from '../../src/kernel/ip/address.ts'
import { parseCidr } from '../../src/kernel/ip/cidr.ts'
import { decide } from '../../src/kernel/ip/decide.ts'
import { type Action, type CompiledPolicy, compilePolicy } from '../../src/kernel/ip/ranges.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { random, randomBelow } from '../harness/random.ts'
import { get, putHttpsEdge, putRoute, type RouteOptions, startHttpUpstream } from './http_harness.ts'
import { type Edge, firstBytes, id, startEdge, startUpstream } from './proxy_harness.ts'

type Known = { id: string; compiled: CompiledPolicy; ruleIds: string[] }

/** A policy with its two files, as the agent has put them in place. */
async function policyWithRules(edge: Edge, account: string, ...lines: string[]): Promise<Known> {
  const rules = lines.map((line) => {
    const [action, range = ''] = line.split(' ')
    const { cidr, fault } = parseCidr(range)
    assert.ok(cidr, fault)
    return { action: action as Action, cidr }
  })
  const compiled = compilePolicy(rules)
  const ruleIds = rules.map(() => newId('ipr'))
  const bytes = Buffer.concat(ruleIds.map((each) => Buffer.from(toUuid(each).replaceAll('-', ''), 'hex')))
  const { bytes: file, hash } = encodeRules(toUuid(account as Id<'ac'>), compiled, bytes)
  assert.equal(createHash('sha256').update(file).digest('hex'), hash)
  assert.equal(ruleFileFault(file), undefined)
  const policy = await edge.writePolicyFile(...lines)
  await writeFile(join(policyFolder(edge.settings), hash), file)
  const known = { id: id('ipp'), compiled, ruleIds }
  await edge.put({ [`policy.${known.id}`]: `${policy}.${hash}` })
  return known
}

/** Adds up what is counted, and what should be. */
function tally() {
  const counts: Record<string, number> = {}
  const add = (rule: string | undefined, outcome: string, times = 1) => {
    if (rule !== undefined) counts[`${rule} ${outcome}`] = (counts[`${rule} ${outcome}`] ?? 0) + times
  }
  return { counts, add }
}
const sorted = (counts: Record<string, number>) => Object.fromEntries(Object.entries(counts).sort())

/** What the API's engine says. */
function expectedOf(policies: readonly Known[], source: string, denied = 'refused') {
  const { allowed, policy, rule } = decide(
    policies.map(({ compiled }) => compiled),
    parseAddress(source),
  )
  const named = policy === undefined || rule === undefined ? undefined : policies[policy]?.ruleIds[rule]
  const decider = policies.length === 1 ? policies[0] : policies[policy ?? -1]
  return { allowed, rule: named, policy: decider?.id ?? null, outcome: allowed ? 'allowed' : denied }
}

async function counting(t: TestContext, edge: Edge) {
  const { counts, add } = tally()
  const accounts = new Set<string>()
  const onCount = ({ account, rule, outcome, times }: RuleCount) => {
    accounts.add(account)
    add(rule, outcome, times)
  }
  const state = { counts, accounts, onCount, lost: 0, receiver: { close: async () => {} } }
  state.receiver = await receiveRuleCounts(edge.settings, onCount, (hits) => {
    state.lost += hits
  })
  t.after(() => state.receiver.close())
  return state
}

test('HAProxy counts every decision for the rule that the API names, and its line names it, for connections and for requests on both paths', async (t) => {
  const edge = await startEdge(t, { certificates: ['app.example.com'] })
  const counted = await counting(t, edge)
  const account = id('ac')
  const [one, other] = [
    await policyWithRules(edge, account, 'allow 127.0.0.0/24', 'deny 127.0.0.64/26', 'allow 127.0.0.8/29'),
    await policyWithRules(edge, account, 'deny 127.0.0.4/30', 'allow 127.0.0.0/8', 'allow 127.0.1.1'),
  ]
  const watched = await policyWithRules(edge, account, 'allow 127.0.0.0/8', 'deny 127.0.0.96/27')
  const backend = id('bkdst')
  const upstream = await startUpstream(t, 'hello')
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`tcp.${id('edgtcp')}`]: {
      account,
      hostports: [`127.0.0.1:${edge.tcpPort}`],
      backend,
      policies: [one.id, other.id],
    },
  })
  await edge.put({
    [`tcp.${id('edgtcp')}`]: {
      account,
      hostports: [`127.0.0.1:${edge.tcpPort + 1}`],
      backend,
      policies: [one.id],
    },
  })
  const web = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const warningAccount = id('ac')
  await putRoute(edge, https, web, { account, match: '/one', policies: [one.id] })
  await putRoute(edge, https, web, { account: warningAccount, match: '/both', policies: [one.id, other.id] })
  await edge.put({
    [`restrictions.${warningAccount}`]: { sets: [{ id: id('ipx'), enforced: false, policies: [watched.id] }] },
  })

  const expected = tally()
  const lines: string[] = []
  const lineOf = (source: string, by: { outcome: string; policy: string | null; rule?: string | null | undefined }) =>
    `${source} ${by.outcome} ${by.policy} ${by.rule ?? null}`
  for (let turn = 0; turn < 120; turn++) {
    const source = `127.0.${random() < 0.2 ? 1 : 0}.${1 + randomBelow(127)}`
    const kind = turn % 5
    const policies = kind === 1 || kind === 4 ? [one] : [one, other]
    const own = expectedOf(policies, source)
    const warned = kind === 2 || kind === 3 ? expectedOf([watched], source, 'warned') : undefined
    const { allowed, rule, outcome } = own
    expected.add(rule, outcome)
    lines.push(lineOf(source, allowed && warned?.outcome === 'warned' ? warned : own))
    if (kind === 0 || kind === 4) {
      const port = edge.tcpPort + (kind === 4 ? 1 : 0)
      assert.equal(await firstBytes({ port, from: source }), allowed ? 'hello' : '', `${source} ${kind}`)
    } else {
      // An unusual header takes the careful path.
      const headers = kind === 3 ? ['X_Odd: 1'] : []
      const answer = await get(edge, { path: kind === 1 ? '/one' : '/both', from: source, headers })
      assert.equal(answer.status, allowed ? 200 : 403, `${source} ${answer.head}`)
      if (warned) expected.add(warned.rule, warned.outcome)
    }
  }
  await poll(
    () => sorted(counted.counts),
    (found) => JSON.stringify(found) === JSON.stringify(sorted(expected.counts)),
    { withinSeconds: 20 },
  )
  assert.deepEqual([...counted.accounts], [account], 'the account of the rules, not that of the traffic')
  assert.deepEqual(edge.troubles, [])
  const told = await poll(
    () => edge.lines.flatMap(({ request, isEnd }) => (isEnd ? [lineOf(request.source, request)] : [])),
    ({ length }) => length >= lines.length,
  )
  assert.deepEqual(told.sort(), lines.sort())

  // While no agent is there, HAProxy keeps what it counts.
  await counted.receiver.close()
  for (let turn = 0; turn < 10; turn++) await firstBytes({ port: edge.tcpPort, from: '127.0.0.9' })
  for (let turn = 0; turn < 10; turn++) expected.add(one.ruleIds[2], 'allowed')
  counted.receiver = await receiveRuleCounts(edge.settings, counted.onCount)
  await poll(
    () => sorted(counted.counts),
    (found) => JSON.stringify(found) === JSON.stringify(sorted(expected.counts)),
  )
})

test('a request is counted once for its rule on both paths, with and without other modules on its route', async (t) => {
  const edge = await startEdge(t, { certificates: ['app.example.com'] })
  const counted = await counting(t, edge)
  const account = id('ac')
  const policy = await policyWithRules(edge, account, 'allow 127.0.0.0/24')
  const web = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const headers = { add: [['X-One', '1'] as [string, string]], remove: ['X-Two'] }
  const methods: RouteOptions['methods'] = { allow: ['GET'], deny: [], mode: 'enforce' }
  const rate_limit = { requests: 100, per_seconds: 60, key: 'source', mode: 'enforce' } as const
  const modules: Record<string, RouteOptions> = {
    none: {},
    headers: { headers },
    methods: { methods },
    rate: { rate_limit },
    response: { response_headers: headers },
    all: { headers, response_headers: headers, methods, rate_limit },
  }
  for (const [name, options] of Object.entries(modules))
    await putRoute(edge, https, web, { account, match: `/${name}`, policies: [policy.id], ...options })
  const expected = tally()
  // On one connection, because its first request is decided in another way than those after it.
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  const visit = (path: string, headers: Record<string, string>) =>
    new Promise<number | undefined>((resolve, reject) => {
      const to = { host: '127.0.0.1', port: edge.httpsPort, servername: 'app.example.com', rejectUnauthorized: false }
      const options = {
        ...to,
        localAddress: '127.0.0.9',
        agent,
        path,
        headers: { Host: 'app.example.com', ...headers },
      }
      request(options, (response) => response.resume().on('end', () => resolve(response.statusCode)))
        .on('error', reject)
        .end()
    })
  for (const name of Object.keys(modules))
    for (const sent of [{}, { X_Odd: '1' }, {}] as Record<string, string>[]) {
      assert.equal(await visit(`/${name}`, sent), 200, name)
      expected.add(policy.ruleIds[0], 'allowed')
    }
  const total = () => Object.values(counted.counts).reduce((sum, times) => sum + times, 0)
  const expectedTotal = 3 * Object.keys(modules).length
  await poll(total, (sum) => sum >= expectedTotal)
  // HAProxy hands its counts over twice a second, so one more would arrive now.
  await holdsFor(1_200, () => total() === expectedTotal)
  assert.deepEqual(counted.counts, expected.counts)
})

test('without its file of rules, or with a broken one, a policy decides the same and counts nothing', async (t) => {
  const edge = await startEdge(t)
  const counted = await counting(t, edge)
  const account = id('ac')
  const [backend, policy] = [id('bkdst'), id('ipp')]
  const upstream = await startUpstream(t, 'hello')
  const file = await edge.writePolicyFile('allow 127.0.0.2/31', 'deny 127.0.0.3')
  const broken = 'ab'.repeat(32)
  await writeFile(join(policyFolder(edge.settings), broken), 'GHR1 but nothing of the kind')
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`tcp.${id('edgtcp')}`]: { account, hostports: [`127.0.0.1:${edge.tcpPort}`], backend, policies: [policy] },
  })
  for (const files of [file, `${file}.${broken}`, `${file}.${'cd'.repeat(32)}`]) {
    await edge.put({ [`policy.${policy}`]: files })
    const seen: string[] = []
    for (const last of [1, 2, 3]) seen.push(await firstBytes({ port: edge.tcpPort, from: `127.0.0.${last}` }))
    assert.deepEqual(seen, ['', 'hello', ''], files)
  }
  // A file of rules is no policy: nothing is let through by it.
  const { ruleIds } = await policyWithRules(edge, account, 'allow 127.0.0.0/8')
  assert.equal(ruleIds.length, 1)
  const rules = edge
    .all()
    .filter(({ map }) => map === 'policy')
    .map(({ value }) => value.split('.')[1])
    .find((hash) => hash !== undefined && hash !== broken && !hash.startsWith('cd'))
  assert.ok(rules)
  await edge.put({ [`policy.${policy}`]: rules })
  assert.equal(await firstBytes({ port: edge.tcpPort, from: '127.0.0.2' }), '')
  assert.deepEqual(counted.counts, {})
})

test('what a thread hands over twice is counted once, and anything else is refused', async (t) => {
  const edge = await startEdge(t)
  const counted = await counting(t, edge)
  const [account, rule] = ['01'.repeat(16), '02'.repeat(16)]
  const say = (text: string) =>
    new Promise<string>((resolve) => {
      let answer = ''
      const socket = connect(ruleCountSocket(edge.settings), () => socket.write(text))
      socket.on('data', (bytes) => {
        answer += bytes
      })
      socket.on('close', () => resolve(answer))
    })
  const batch = (number: number, line = `${rule}a 3`) => `thread-1 ${number}\na${account}\n${line}\nend\n`
  assert.equal(await say(batch(1)), 'kept 1\n')
  assert.equal(await say(batch(1)), 'kept 1\n')
  assert.equal(await say(batch(2)), 'kept 2\n')
  const known = toId('ipr', uuidOfHex(rule))
  assert.deepEqual(counted.counts, { [`${known} allowed`]: 6 })
  for (const line of [`${rule}x 3`, `${rule}a -3`, `${rule}a`, 'nothing', `${rule}a 3 4`])
    assert.equal(await say(batch(3, line)), 'unknown\n', line)
  assert.equal(readBatch(`thread-1 4\n${rule}a 1\nend\n`), undefined, 'a rule without an account')
  assert.equal(counted.lost, 0)
  for (let times = 0; times < 2; times++) assert.equal(await say(batch(5).replace(' 5\n', ' 5 40\n')), 'kept 5\n')
  assert.equal(counted.lost, 40, 'what a thread had no place for, once')
  counted.counts[`${known} allowed`] = (counted.counts[`${known} allowed`] ?? 0) - 3
  assert.deepEqual(counted.counts, { [`${known} allowed`]: 6 })
})
