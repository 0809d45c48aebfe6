// Plans that are reviewed before they are carried out, and runs that meet the changes of others.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { parse } from 'yaml'
import { exits } from '../../src/cli/exits.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { testRun } from '../harness/test_run.ts'
import { cliFor } from './harness.ts'
import { stateFile } from './state_harness.ts'

const plane = await startControlPlane({ after })
const origin = plane.processes[0]?.origin ?? ''

const wanted = `gatehouse: 1
ip_policies:
  office: {description: office, metadata: new, rules: [allow 10.0.0.0/8, deny 10.1.0.0/16]}
backends:
  app: {address: app.internal:8080}
tcp_edges:
  db: {hostports: [db-PORT.example:PORT], backend: {backend: app}, ip_restriction: {ip_policies: [office]}}
`
const stateAt = (port: number) => wanted.replaceAll('PORT', String(port))

/** An account with a policy that the file changes. */
async function accountWithOffice() {
  const account = await plane.newAccount()
  const policy = (await account('POST', '/ip_policies', { description: 'office' })).body
  return { account, policy, cli: cliFor(plane, account) }
}

test('a saved plan is carried out once, and only as long as the account is as it was', async () => {
  const { account, policy, cli } = await accountWithOffice()
  const [file, plan] = [await stateFile(stateAt(20_101)), join(testRun.folder, 'plan.json')]
  const made = await cli(['state', 'diff', file, '--output', 'json', '--out', plan])
  assert.equal(made.code, exits.different.code, made.stderr)
  const { differences } = JSON.parse(made.stdout)
  assert.deepEqual(
    differences.map(({ action, kind, name }: Record<string, string>) => [action, kind, name]),
    [
      ['change', 'IP policy', 'office'],
      ['create', 'backend', 'app'],
      ['create', 'TCP edge', 'db'],
    ],
  )
  assert.deepEqual(differences[0], {
    action: 'change',
    kind: 'IP policy',
    name: 'office',
    id: policy.id,
    fields: { metadata: { after: 'new' } },
    rules_added: [
      { action: 'allow', cidr: '10.0.0.0/8' },
      { action: 'deny', cidr: '10.1.0.0/16' },
    ],
  })
  assert.deepEqual(differences[2].fields.backend.after, { backend: 'app' })
  assert.deepEqual(JSON.parse(await readFile(plan, 'utf8')).differences, differences)

  const other = await cliFor(plane, await plane.newAccount())(['state', 'apply', plan])
  assert.deepEqual([other.code, /the plan is for account ac_/.test(other.stderr)], [exits.refused.code, true])

  await account('PATCH', `/ip_policies/${policy.id}`, { metadata: 'by hand' })
  const stale = await cli(['state', 'apply', plan])
  assert.equal(stale.code, exits.refused.code)
  assert.match(
    stale.stderr,
    /has changed since the plan was made; nothing was changed\n {2}new: change IP policy office/,
  )
  assert.deepEqual((await account('GET', '/edges/tcp')).body.tcp_edges, [])

  await account('PATCH', `/ip_policies/${policy.id}`, { metadata: '' })
  await cli.ok(['state', 'apply', plan])
  assert.equal((await account('GET', '/edges/tcp')).body.tcp_edges.length, 1)
  assert.equal((await cli(['state', 'diff', file])).code, exits.ok.code)
  assert.equal((await cli(['state', 'apply', plan])).code, exits.refused.code)
})

/** Between the command and the service: `meanwhile` happens before the first request that it is for. */
async function between(isFor: (request: string) => boolean, meanwhile: () => Promise<unknown>) {
  let isDone = false
  const server = createServer(async (request, response) => {
    const body = await text(request)
    if (!isDone && isFor(`${request.method} ${request.url}`)) {
      isDone = true
      await meanwhile()
    }
    const { host: _, connection: __, 'content-length': ___, ...headers } = request.headers as Record<string, string>
    const passed = await fetch(`${origin}${request.url}`, {
      method: request.method ?? '',
      headers,
      ...(body && { body }),
    })
    const kept = [...passed.headers].filter(([name]) => !['content-length', 'transfer-encoding'].includes(name))
    response.writeHead(passed.status, Object.fromEntries(kept)).end(await passed.text())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  after(() => server.closeAllConnections())
  after(() => server.close())
  return { env: { GATEHOUSE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }, wasMet: () => isDone }
}

test('a run does not overwrite what someone else changes meanwhile, and changes nothing then', async () => {
  const cases = [
    { when: 'POST /change_sets', isRules: false, told: /someone else has changed it since this run read it/ },
    { when: 'POST /change_sets', isRules: true, told: /someone else has changed it since this run read it/ },
    {
      when: 'apply',
      isRules: false,
      told: /someone else has changed POLICY since this run read it; nothing was changed/,
    },
    {
      when: 'apply',
      isRules: true,
      told: /someone else has changed POLICY since this run read it; nothing was changed/,
    },
  ]
  for (const [index, { when, isRules, told }] of cases.entries()) {
    const { account, policy, cli } = await accountWithOffice()
    const path = `/ip_policies/${policy.id}`
    const { env, wasMet } = await between(
      (request) => request.startsWith('POST') && request.endsWith(when),
      () =>
        isRules
          ? account('PUT', `${path}/rules`, { rules: [{ action: 'deny', cidr: '192.0.2.0/24' }] })
          : account('PATCH', path, { metadata: 'by hand' }),
    )
    const { code, stderr } = await cli(['state', 'apply', await stateFile(stateAt(20_110 + index))], { env })
    assert.ok(wasMet(), `${when} was not sent`)
    assert.equal(code, exits.refused.code, `${when}, ${isRules}: ${stderr}`)
    assert.match(stderr.replaceAll(policy.id, 'POLICY'), told)
    const kept = isRules
      ? (await account('GET', `${path}/rules`)).body.rules.map(({ cidr }: { cidr: string }) => cidr)
      : (await account('GET', path)).body.metadata
    assert.deepEqual(kept, isRules ? ['192.0.2.0/24'] : 'by hand')
    assert.deepEqual((await account('GET', '/backends/static')).body.backends, [], 'the rest was not made either')
    assert.deepEqual((await account('GET', '/change_sets')).body.change_sets, [], 'no draft is left behind')
  }
})

test('a run one by one does not overwrite what someone else changes meanwhile', async () => {
  const cases = [
    // Before the run looks at the policy again, after that, and before it looks at its rules again.
    { when: 'GET', below: '', told: /someone else has changed it since this run read it/ },
    { when: 'PATCH', below: '', told: /ERR_PRECONDITION_FAILED/ },
    { when: 'GET', below: '/rules', told: /someone else has changed it since this run read it/ },
  ]
  for (const [index, { when, below, told }] of cases.entries()) {
    const { account, policy, cli } = await accountWithOffice()
    const path = `/ip_policies/${policy.id}`
    let seen = 0
    // The rules are read once with the account.
    const isFor = (request: string) => request === `${when} ${path}${below}` && ++seen > (below ? 1 : 0)
    const { env, wasMet } = await between(isFor, () =>
      below
        ? account('PUT', `${path}/rules`, { rules: [{ action: 'deny', cidr: '192.0.2.0/24' }] })
        : account('PATCH', path, { metadata: 'by hand' }),
    )
    const file = await stateFile(stateAt(20_115 + index))
    const { code, stderr } = await cli(['state', 'apply', file, '--one-by-one'], { env })
    assert.ok(wasMet(), `${when} ${below} was not sent`)
    assert.equal(code, exits.refused.code, stderr)
    assert.match(stderr, told)
    const kept = below
      ? (await account('GET', `${path}/rules`)).body.rules.map(({ cidr }: { cidr: string }) => cidr)
      : (await account('GET', path)).body.metadata
    assert.deepEqual(kept, below ? ['192.0.2.0/24'] : 'by hand')
  }
})

test('the JSON Schema accepts dumps and the example of the documentation, and refuses what validate refuses', async () => {
  const { cli } = await accountWithOffice()
  const schema = JSON.parse(await cli.ok(['state', 'schema'], { env: { GATEHOUSE_URL: '', GATEHOUSE_API_KEY: '' } }))
  const accepts = new Ajv2020({ strict: false, validateFormats: false }).compile(schema)
  const page = await readFile(new URL('../../docs/reference/state-file.md', import.meta.url), 'utf8')
  const [, example = ''] = /```yaml\n(gatehouse: 1.*?)```/s.exec(page) ?? []
  await cli.ok(['state', 'apply', await stateFile(stateAt(20_120))])
  for (const file of [example, await cli.ok(['state', 'dump']), stateAt(1), 'gatehouse: 1\nbackends:\n'])
    assert.ok(accepts(parse(file)), `${file}\n${JSON.stringify(accepts.errors)}`)
  for (const wrong of [
    'gatehouse: 2',
    'gatehouse: 1\nbackend: {}',
    'gatehouse: 1\nbackends: {a: {}}',
    'gatehouse: 1\nbackends: {a: {address: "a:1", protocol: http3}}',
    'gatehouse: 1\nip_policies: {a: {rules: [permit 10.0.0.0/8]}}',
    'gatehouse: 1\nip_restrictions: {a: {type: api, ip_policies: []}}',
  ]) {
    assert.ok(!accepts(parse(wrong)), wrong)
    const { code, stdout } = await cli(['state', 'validate', '-'], { input: wrong })
    assert.deepEqual([code, stdout], [exits.refused.code, ''], wrong)
  }
  const valid = await cli(['state', 'validate', '-'], { input: example, env: { GATEHOUSE_URL: '' } })
  assert.deepEqual([valid.code, valid.stderr], [0, 'The file is valid.\n'])
})
