// `gatehouse state apply` and `sync`, killed half-way, or without an answer.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { exits } from '../../src/cli/exits.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { program } from '../harness/program.ts'
import { random, randomBelow } from '../harness/random.ts'
import { sized } from '../harness/thorough.ts'
import { cliFor } from './harness.ts'
import { contentsOf, countOf, stateFile } from './state_harness.ts'

const plane = await startControlPlane({ after })

/** The first has everything twice or unnamed that could be mistaken for another; the second is what becomes of it. */
const first = `
gatehouse: 1
ip_policies:
  a: {description: a, rules: [allow 127.0.0.0/8]}
  b: {rules: [allow 10.0.0.0/8]}
  c: {rules: [allow 10.0.0.0/8]}
  d: {rules: [allow 10.1.0.0/16]}
backends: {one: {address: one.internal:80}, two: {address: one.internal:80}}
ip_restrictions: {api: {type: api, enforced: true, ip_policies: [a]}, tried: {type: api, ip_policies: [b, d]}}
tcp_edges: {x: {hostports: [x.example:20001], backend: {backend: one}, ip_restriction: {ip_policies: [c]}}, y: {description: no hostports}}
https_edges:
  p: {hostports: [p.example:443], routes: [{match_type: path_prefix, match: /, backend: {backend: two}}, {match_type: exact_path, match: /, ip_restriction: {ip_policies: [d]}}]}
  q: {hostports: [q.example:443], routes: [{match_type: path_prefix, match: /, backend: {backend: two}}]}
`
const second = `
gatehouse: 1
ip_policies:
  a: {description: a, rules: [allow 127.0.0.0/8, deny 127.0.0.9]}
  e: {description: e, rules: [allow 10.0.0.0/8]}
backends: {one: {address: one.internal:80}, three: {address: three.internal:80}}
ip_restrictions: {api: {type: api, enforced: true, ip_policies: [a]}, all: {type: endpoints, enforced: true, ip_policies: [e]}}
tcp_edges: {x: {hostports: [x.example:20002], backend: {backend: three}, ip_restriction: {ip_policies: [e]}}, z: {hostports: [x.example:20001]}}
https_edges:
  p: {hostports: [p.example:443, q.example:443], routes: [{match_type: path_prefix, match: /, backend: {backend: one}, ip_restriction: {ip_policies: [e]}}]}
`
const empty = 'gatehouse: 1\nip_policies: {}\nbackends: {}\nip_restrictions: {}\ntcp_edges: {}\nhttps_edges: {}\n'

/** Kills the client at its n-th change: before the service has it, or when the service has done it and answers. */
async function killAt(
  n: number,
  when: 'before' | 'after',
  args: string[],
  env: Record<string, string>,
): Promise<boolean> {
  let changes = 0
  const server = createServer(async (request, response) => {
    const body = await text(request)
    const isTheOne = request.method !== 'GET' && ++changes === n
    if (isTheOne && when === 'before') return child.kill('SIGKILL')
    const { host: _, connection: __, 'content-length': ___, ...headers } = request.headers as Record<string, string>
    const passed = await fetch(`${env.GATEHOUSE_URL}${request.url}`, {
      method: request.method ?? '',
      headers,
      ...(body && { body }),
    })
    const answer = await passed.text()
    if (isTheOne) return child.kill('SIGKILL')
    response.writeHead(passed.status, {
      'operation-id': passed.headers.get('operation-id') ?? '',
      'content-type': 'application/json',
    })
    return response.end(answer)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const GATEHOUSE_URL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...process.env, ...env, GATEHOUSE_URL },
    stdio: 'ignore',
  })
  const [, signal] = await once(child, 'exit')
  server.closeAllConnections()
  server.close()
  return signal === 'SIGKILL'
}

test('a sync killed at any moment has made all changes or none, and reaches the same state when run again', async () => {
  const account = await plane.newAccount()
  const mine = cliFor(plane, account)
  const sync = async (text: string) => ['state', 'sync', await stateFile(text), '--yes', '--allow-self-lockout']
  const [toFirst, toSecond, toEmpty] = [await sync(first), await sync(second), await sync(empty)]
  await mine.ok(toFirst)
  let before = await contentsOf(account)
  // Its changes are the draft and its application.
  for (const [goal, n, when] of [
    [toSecond, 1, 'before'],
    [toSecond, 1, 'after'],
    [toSecond, 2, 'before'],
    [toSecond, 2, 'after'],
    [toEmpty, 2, 'after'],
    [toFirst, 1, 'after'],
    [toFirst, 2, 'after'],
  ] as const) {
    await mine.ok(goal === toSecond ? toFirst : goal === toEmpty ? toSecond : toEmpty)
    before = await contentsOf(account)
    assert.ok(await killAt(n, when, goal, mine.env), `${n} ${when}`)
    const isMade = n === 2 && when === 'after'
    const isAsBefore = isDeepStrictEqual(await contentsOf(account), before)
    assert.equal(isAsBefore, !isMade, `killed ${when} change ${n}`)
    assert.equal((await mine(['state', 'diff', goal[2] ?? ''])).stdout === '', isMade)
    await mine.ok(goal)
    assert.equal((await mine(['state', 'diff', goal[2] ?? ''])).stdout, '')
    const drafts = (await account('GET', '/change_sets?state=draft')).body.change_sets
    assert.deepEqual(drafts, [], 'the draft of the run that was killed was used, not left')
  }
  // Other tests use the hostports.
  await mine.ok(toEmpty)
})

test('when the answer is lost, the command finds out whether the changes were made', async () => {
  for (const [isDone, isBack] of [
    [true, true],
    [false, true],
    [true, false],
  ]) {
    const account = await plane.newAccount()
    const mine = cliFor(plane, account)
    const file = await stateFile(
      'gatehouse: 1\nip_policies: {a: {rules: [allow 10.0.0.0/8]}}\nbackends: {b: {address: b.internal:80}}\n',
    )
    let lost = 0
    const server = createServer(async (request, response) => {
      const body = await text(request)
      const isApply = /\/apply/.test(request.url ?? '')
      const isCut = isApply && (++lost === 1 || !isBack)
      if (isCut && !isDone) return request.socket.destroy()
      const { host: _, connection: __, 'content-length': ___, ...headers } = request.headers as Record<string, string>
      const sent = { method: request.method ?? '', headers, ...(body && { body }) }
      const passed = await fetch(`${mine.env.GATEHOUSE_URL}${request.url}`, sent)
      const answer = await passed.text()
      if (isCut) return request.socket.destroy()
      const kept = [...passed.headers].filter(([name]) => !['content-length', 'transfer-encoding'].includes(name))
      return response.writeHead(passed.status, Object.fromEntries(kept)).end(answer)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const GATEHOUSE_URL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const ended = await mine(['state', 'apply', file, '--timeout', '10'], {
      env: { GATEHOUSE_URL },
    })
    server.closeAllConnections()
    server.close()
    const applied = (await account('GET', '/audit_events?operation=change_sets.apply')).body.audit_events
    assert.equal(applied.length, 1, 'never twice')
    if (isBack) assert.deepEqual([ended.code, lost], [0, 2], ended.stderr)
    else {
      assert.equal(ended.code, exits.unreachable.code, ended.stderr)
      assert.match(ended.stderr, /It is not known whether the changes were made: either all of them were, or none\./)
      assert.match((await mine(['state', 'apply', file])).stderr, /Nothing to do/)
    }
  }
})

test('a run one by one, killed at any moment, reaches the same state when run again', async () => {
  const account = await plane.newAccount()
  const mine = cliFor(plane, account)
  const oneByOne = [...['--yes', '--allow-self-lockout'], '--one-by-one']
  const sync = async (text: string) => ['state', 'sync', await stateFile(text), ...oneByOne]
  const [toFirst, toSecond, toEmpty] = [await sync(first), await sync(second), await sync(empty)]
  const applyFirst = ['state', 'apply', toFirst[2] ?? '', '--one-by-one']
  const dump = () => mine.ok(['state', 'dump', '--no-ids'])
  await mine.ok(toFirst)
  const wantedFirst = await dump()
  await mine.ok(toSecond)
  const wantedSecond = await dump()
  assert.notEqual(wantedFirst, wantedSecond)

  const kills: string[] = []
  for (const [goal, wanted, moments] of [
    [toEmpty, undefined],
    [toFirst, wantedFirst],
    [toSecond, wantedSecond],
    [toFirst, wantedFirst],
    [toEmpty, undefined],
    // It deletes nothing, so anything it made twice would stay. Killed when it has just made: an IP policy without a
    // name and without its rules, twice; an HTTPS edge without routes and hostports; the first of its routes.
    [applyFirst, wantedFirst, [3, 2, 6, 1]],
  ] as const) {
    // The first kill always hits; the others do if there is still that much to do.
    for (const n of moments ?? [1, ...Array.from({ length: sized(1, 3) }, () => 1 + randomBelow(9))]) {
      const when = moments || random() < 0.5 ? 'after' : 'before'
      if (!(await killAt(n, when, goal, mine.env))) break
      kills.push(`${n} ${when}`)
    }
    await mine.ok(goal)
    if (wanted) assert.equal((await mine(['state', 'diff', goal[2] ?? ''])).code, 0)
    // Nothing is there twice, or left over.
    if (wanted) assert.deepEqual((await dump()).split('\n').toSorted(), wanted.split('\n').toSorted())
    else assert.equal(countOf(await contentsOf(account)), 0)
  }
  console.log(`killed ${kills.length} times, at the change: ${kills.join(', ')}`)
  assert.ok(kills.length >= 5)
})
