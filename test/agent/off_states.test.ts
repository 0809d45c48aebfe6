import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { type RouteModuleName, routeModuleNames } from '../../src/distribution/route_modules.ts'
import { hourOf } from '../../src/kernel/clock.ts'
import { authority, issue } from '../harness/client_pki.ts'
import type { Account } from '../harness/control_plane.ts'
import { type EdgeProcess, startInstallation } from '../harness/edge.ts'
import { make } from '../harness/fixtures.ts'
import { policyWith, restrict } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { type Line, receiveAccessLog } from '../second_opinion/access_log.ts'
import { type Get, get, startHttpUpstream } from './http_harness.ts'

const moduleStates = ['absent', 'disabled', 'enabled'] as const
const policyStates = ['missing', 'empty', 'large'] as const
const restrictionStates = ['none', 'warn', 'enforce'] as const
const modeStates = ['default', 'warn', 'enforce'] as const
type ModuleState = (typeof moduleStates)[number]
type PolicyState = (typeof policyStates)[number]

/** What an account has, and what one of its routes and one of its TCP edges have. */
type Restriction = { restriction: (typeof restrictionStates)[number]; asked: PolicyState }
type Modules = {
  backend: ModuleState
  ipRestriction: ModuleState
  mode: (typeof modeStates)[number]
  headers: ModuleState
  answer: ModuleState
  /** The `mutual_tls` of the edge. */
  certificate: ModuleState
  policy: PolicyState
}
type Case = Restriction & Modules & Record<RouteModuleName, ModuleState>

const accounts: Restriction[] = restrictionStates.flatMap((restriction): Restriction[] =>
  restriction === 'none' ? [{ restriction, asked: 'large' }] : policyStates.map((asked) => ({ restriction, asked })),
)
/** Three cases for each account. A module is in each of its states in one of them; which, its shifts say, one for each account. */
const atShifts = (shifts: readonly number[]): number[] =>
  shifts.flatMap((shift) => [0, 1, 2].map((at) => (at + shift) % 3))
const shiftsOf = (of: (account: number) => number) => atShifts(accounts.map((_, account) => of(account) % 3))
const columns: Record<string, number[]> = {
  backend: shiftsOf(() => 0),
  ipRestriction: shiftsOf((account) => account),
  policy: shiftsOf((account) => 2 * account),
  headers: shiftsOf((account) => Math.floor(account / 3)),
  answer: shiftsOf((account) => 2 * Math.floor(account / 3) + (account % 3 === 2 ? 1 : 0)),
  // With these, some requests are forwarded.
  redirect: atShifts([0, 0, 0, 0, 0, 2, 1]),
}
/** Every pair of states of two modules, and of a module and the account, is in some case. */
const isCovered = (one: readonly number[], other: readonly number[]): boolean =>
  new Set(one.map((state, at) => 3 * state + (other[at] ?? 0))).size === 9
for (const name of ['mode', 'certificate', ...routeModuleNames])
  for (let number = 0; !columns[name]; number++) {
    const digits = number.toString(3).padStart(accounts.length, '0')
    assert.equal(digits.length, accounts.length, `no order of states covers all pairs with ${name}`)
    const column = atShifts([...digits].map(Number))
    if (Object.values(columns).every((other) => isCovered(column, other))) columns[name] = column
  }
const casesOf = (account: number): Case[] =>
  [0, 1, 2].map((at) => {
    const states = Object.entries(columns).map(([name, column]) => {
      const state = column[3 * account + at] ?? 0
      return [name, ({ policy: policyStates, mode: modeStates }[name] ?? moduleStates)[state]]
    })
    return { ...(accounts[account] as Restriction), ...Object.fromEntries(states) }
  })

/** As the docs say: what cannot be asked refuses, what has no rule allows no one, and a warning stops nothing. */
function expectedOf(one: Case) {
  const { restriction, asked, ipRestriction, mode, policy, backend, headers, answer, certificate, ...modules } = one
  const isAsked = certificate === 'enabled'
  // Even refusals have it: it is one of those that suit every answer.
  const isFramed = answer === 'enabled'
  const isShared = modules.cors === 'enabled'
  const isDenied = ipRestriction === 'enabled' && policy !== 'large'
  const isRefused = (isDenied && mode !== 'warn') || (restriction === 'enforce' && asked !== 'large')
  if (isRefused)
    return {
      status: 403,
      bare: isAsked ? 0 : 403,
      isVerified: false,
      again: 403,
      byAgent: 403,
      byMethod: 403,
      outcome: 'refused',
      isRewritten: false,
      isMoved: false,
      isFramed,
      isShared,
      tcp: '',
    }
  const outcome = isDenied || (restriction === 'warn' && asked !== 'large') ? 'warned' : 'allowed'
  const tcp = backend === 'enabled' ? 'HTTP/1.1 200' : ''
  const [status, end, isForwarded] =
    modules.redirect === 'enabled'
      ? [307, outcome, false]
      : backend === 'enabled'
        ? [200, outcome, true]
        : [503, 'failed', false]
  const again = modules.rate_limit === 'enabled' ? 429 : status
  const byAgent = modules.user_agent_filter === 'enabled' ? 403 : again
  const byMethod = modules.methods === 'enabled' ? 405 : again
  return {
    status,
    bare: isAsked ? 0 : status,
    isVerified: isForwarded && isAsked,
    again,
    byAgent,
    byMethod,
    outcome: end,
    isRewritten: isForwarded && headers === 'enabled',
    isMoved: isForwarded && modules.rewrite === 'enabled',
    isFramed,
    isShared,
    tcp,
  }
}

const root = authority('/CN=Clients')
/** Every request shows it where it is asked for, but for those that show none. */
const client = issue({ subject: '/CN=client', issuer: root })

const log = await receiveAccessLog({ after })
const upstream = await startHttpUpstream({ after })
const installation = await startInstallation({ after })
const node = await installation.startEdge({ env: { GATEHOUSE_EDGE_ACCESS_LOG: log.url } })

/** More than HAProxy's Lua reads as a whole without a second thought, and the node gets it in pieces. */
const manyRules = Array.from({ length: 6_000 }, (_, at) => `allow 2001:db8:${at.toString(16)}::1`)
const rulesOf: Record<PolicyState, readonly string[]> = {
  missing: ['allow 127.0.0.0/8', 'allow ::1'],
  empty: [],
  large: ['allow 127.0.0.0/8', 'allow ::1', ...manyRules],
}

/** Absent, or there and switched off or on. */
const moduleOf = (name: string, state: ModuleState, fields: object): object =>
  state === 'absent' ? {} : { [name]: { enabled: state === 'enabled', ...fields } }

const settings: Record<RouteModuleName, object> = {
  user_agent_filter: { deny: ['Bad Agent'] },
  cors: { allowed_origins: ['https://page.example'] },
  methods: { allow: ['GET'] },
  rate_limit: { requests: 1, per_seconds: 3600, key: 'header:X-Client' },
  redirect: { to: 'https://new.example', status_code: 307 },
  rewrite: { add_prefix: '/added', host: 'inner.example' },
}

type Placed = Case & { host: string; path: string; tcp: { to: string; port: number } }

async function build(
  as: Account,
  number: number,
): Promise<{ cases: Placed[]; lost: Record<'route' | 'account', string> }> {
  const policies = Object.fromEntries(
    await Promise.all(policyStates.map(async (state) => [state, await policyWith(as, ...rulesOf[state])])),
  ) as Record<PolicyState, string>
  const lostByAccount = await policyWith(as, ...rulesOf.missing)
  const { restriction, asked } = accounts[number] as Restriction
  if (restriction !== 'none') {
    const policy = asked === 'missing' ? lostByAccount : policies[asked]
    await restrict(as, { type: 'endpoints', enforced: restriction === 'enforce', ip_policy_ids: [policy] })
  }
  const backend_id = (await make(as, '/backends/static', { address: `127.0.0.1:${upstream.port}` })).id
  const cases: Placed[] = []
  for (const [at, each] of casesOf(number).entries()) {
    const both = {
      ...moduleOf('backend', each.backend, { backend_id }),
      ...moduleOf('ip_restriction', each.ipRestriction, {
        ip_policy_ids: [policies[each.policy]],
        ...(each.mode !== 'default' && { mode: each.mode }),
      }),
    }
    const host = `off-${number}-${at}.example`
    const https = await make(as, '/edges/https', {
      hostports: [`${host}:443`],
      ...moduleOf('mutual_tls', each.certificate, { certificate_authorities: [root.pem] }),
    })
    const tcp = { to: at === 2 ? '::1' : '127.0.0.1', port: node.tcpPorts.first + 2 * number + (at % 2) }
    await make(as, `${https.uri}/routes`, {
      ...{ match_type: 'exact_path', match: `/${at}`, ...both },
      ...moduleOf('request_headers', each.headers, { add: { 'x-added': 'yes' } }),
      ...moduleOf('response_headers', each.answer, { add: { 'X-Frame-Options': 'DENY' } }),
      ...Object.assign({}, ...routeModuleNames.map((name) => moduleOf(name, each[name], settings[name]))),
    })
    await make(as, '/edges/tcp?wait=applied', {
      ...both,
      hostports: [`${tcp.to.includes(':') ? `[${tcp.to}]` : tcp.to}:${tcp.port}`],
    })
    cases.push({ ...each, host, path: `/${at}`, tcp })
  }
  return { cases, lost: { route: policies.missing, account: lostByAccount } }
}

/** Nothing repairs HAProxy meanwhile. */
async function whileStopped<Result>({ child }: EdgeProcess, work: () => Promise<Result>): Promise<Result> {
  child.kill('SIGSTOP')
  try {
    return await work()
  } finally {
    child.kill('SIGCONT')
  }
}

/** As after a defect: the node has nothing of the one policy, and no file of the other. */
async function lose({ folder }: EdgeProcess, { route, account }: Record<'route' | 'account', string>): Promise<void> {
  const [socket, map] = [join(folder, 'haproxy/runtime.sock'), join(folder, 'haproxy/maps/policy.map')]
  const [, hash] = /([0-9a-f]{64})/.exec(await ask(socket, `get map ${map} ${account}`)) ?? []
  assert.ok(hash, 'the node has had the policy')
  await ask(socket, `del map ${map} ${route}`)
  // Accounts with the same rules have the same file.
  await rm(join(folder, 'haproxy/policies', hash), { force: true })
}

/** What the upstream says over HTTP through a TCP edge; '' when the connection is refused. */
const dial = ({ to, port }: Placed['tcp']): Promise<string> =>
  new Promise((resolve) => {
    let text = ''
    const socket = connect({ host: to, port })
    socket.on('connect', () => socket.write('GET / HTTP/1.1\r\nHost: tcp\r\n\r\n'))
    socket.on('data', (bytes) => {
      text += bytes
      socket.end()
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(text.slice(0, 12)))
  })

/** After at least one in the same hour: with it begins a window of the limit. */
async function statusOfAnother(host: string, path: string, more: Get = {}): Promise<number> {
  const hour = () => hourOf(Date.now())
  for (;;) {
    const began = hour()
    const headers = [`X-Client: ${path}`, ...(more.headers ?? [])]
    // From two addresses with the same value: only the value can be what is counted.
    await get(node, { host, path, headers, from: '127.0.0.7', client })
    const { status } = await get(node, { host, path, ...more, headers, client })
    if (hour() === began) return status
  }
}

test('every pair of states is among the cases', () => {
  const all = accounts.flatMap((_, number) => casesOf(number))
  const names = Object.keys(all[0] as Case) as (keyof Case)[]
  const valuesOf = (name: keyof Case) => [...new Set(all.map((each) => each[name]))]
  for (const [at, one] of names.entries())
    for (const other of names.slice(at + 1))
      for (const first of valuesOf(one))
        for (const second of valuesOf(other)) {
          const isThere = all.some((each) => each[one] === first && each[other] === second)
          const isWithout = one === 'restriction' && other === 'asked' && first === 'none'
          assert.ok(isThere || isWithout, `${one} ${first} and ${other} ${second}`)
        }
})

test('modules that are absent, disabled and enabled, with policies that are missing, empty and large, do what the docs say', async () => {
  const built = await Promise.all(accounts.map(async (_, number) => build(await installation.newAccount(), number)))
  const cases = built.flatMap((each) => each.cases.map((one) => ({ ...one, lost: each.lost })))
  const seen: object[] = []
  const expected: object[] = []
  for (const each of cases) {
    const { host, path, tcp, lost, ...states } = each
    expected.push({ ...states, ...expectedOf(each) })
    const before = upstream.heads.length
    const [answer, bare, overTcp] = await whileStopped(node, async () => {
      await lose(node, lost)
      return [
        await get(node, { host, path, headers: ['Origin: https://page.example'], client }),
        await get(node, { host, path, headers: ['X-Client: bare'] }),
        await dial(tcp),
      ]
    })
    const heads = upstream.heads.slice(before)
    const isAdded = heads.some((head) => /^x-added: yes$/im.test(head))
    const isVerified = heads.some((head) => /^x-client-certificate-verification: verified$/im.test(head))
    const isMoved = heads.some((head) => head.startsWith(`GET /added${path} `) && /^host: inner\.example$/im.test(head))
    const line = await poll(() =>
      log.lines.find((one: Line) => one['server.address'] === host && one['url.path'] === path),
    )
    const told = {
      status: answer.status,
      bare: bare.status,
      isVerified,
      again: await statusOfAnother(host, path),
      byAgent: await statusOfAnother(host, path, { headers: ['User-Agent: a bad agent/1'] }),
      byMethod: await statusOfAnother(host, path, { method: 'DELETE' }),
      outcome: line?.['gatehouse.outcome'],
      isRewritten: isAdded,
      isMoved,
      isShared: /^access-control-allow-origin: https:\/\/page\.example\r?$/im.test(answer.head),
      isFramed: /^x-frame-options: DENY\r?$/im.test(answer.head),
    }
    seen.push({ ...states, ...told, tcp: overTcp })
  }
  assert.deepEqual(seen, expected)
  const statuses = Object.groupBy(cases, (each) => expectedOf(each).status)
  assert.deepEqual(Object.keys(statuses), ['200', '307', '403', '503'])
})

test('an address module that warns is tried with policies that would refuse', () => {
  const isThere = ({ ipRestriction, mode, policy }: Case) =>
    ipRestriction === 'enabled' && mode === 'warn' && policy !== 'large'
  assert.ok(accounts.some((_, number) => casesOf(number).some(isThere)))
})

test('an error in Lua is counted and logged by the node', async () => {
  const { admin } = installation
  const host = 'lua.example'
  const https = await make(admin, '/edges/https', { hostports: [`${host}:443`] })
  const backend_id = (await make(admin, '/backends/static', { address: `127.0.0.1:${upstream.port}` })).id
  const route = { match_type: 'path_prefix', backend: { backend_id } }
  const ip_restriction = { ip_policy_ids: [await policyWith(admin, 'allow 127.0.0.1')] }
  await make(admin, `${https.uri}/routes`, { ...route, match: '/' })
  await make(admin, `${https.uri}/routes?wait=applied`, { ...route, match: '/secret', ip_restriction })
  const counted = async () =>
    Number(
      /^gatehouse_edge_lua_errors_total (\d+)$/m.exec(await (await fetch(`${node.statusUrl}/metrics`)).text())?.[1],
    )
  const statusOf = async () => (await get(node, { host, path: '/%53ecret' })).status
  assert.deepEqual([await statusOf(), await counted()], [200, 0])
  const map = join(node.folder, 'haproxy/maps/guard.map')
  await whileStopped(node, async () => {
    await ask(join(node.folder, 'haproxy/runtime.sock'), `set map ${map} ${https.id}/secret/ nothing-of-a-route`)
    assert.deepEqual([await statusOf(), await statusOf()], [403, 403])
  })
  await poll(counted, (count) => count === 2)
  const told = node.log.filter(({ msg }) => /^gatehouse\.lua failed/.test(String(msg)))
  assert.deepEqual([told.length, told[0]?.level], [1, 'error'])
})
