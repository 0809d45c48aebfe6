import assert from 'node:assert/strict'
import { Agent, request } from 'node:https'
import type { Scope } from '../harness/control_plane.ts'
import { pause, poll } from '../harness/poll.ts'
import type { Group } from './group.ts'

export type Round = {
  /** From the end of the last server until the node says so for the first time. */
  noticedMs: number
  /** Milliseconds of each request while all were down. */
  answers: number[]
  /** From when a server listens again until it gets a request. */
  recoveredMs: number
}
type Answer = { status: number; code?: string; id?: string; ms: number }

/** All servers end at once, killed or frozen, and come back one after the other, several times. */
export async function endAll(
  scope: Scope,
  group: Group,
  { rounds, asks, how }: { rounds: number; asks: number; how: 'kill' | 'freeze' },
): Promise<Round[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  scope.after(async () => agent.destroy())
  const done: Round[] = []
  for (let round = 0; round < rounds; round++) done.push(await oneRound(group, agent, asks, how))
  return done
}

async function oneRound({ edge, host, servers }: Group, agent: Agent, asks: number, how: 'kill' | 'freeze') {
  const ask = (patienceMs = 10_000) => answerOf(edge.httpsPort, host, agent, patienceMs)
  const ended = performance.now()
  for (const server of servers) how === 'kill' ? await server.kill() : server.freeze()
  // A frozen server accepts what the node sends, and does not say anything.
  await poll(
    () => ask(1_000),
    ({ status, ms }) => status === 503 && ms < 50,
  )
  const noticedMs = performance.now() - ended
  const answers: number[] = []
  for (let count = 0; count < asks; count++) {
    const { status, code, id, ms } = await ask()
    assert.equal(status, 503)
    assert.match(code ?? '', /^ERR_/)
    assert.match(id ?? '', /^[0-9a-f-]{36}$/)
    answers.push(ms)
    await pause(10)
  }
  for (const server of servers) await server.kill()
  const [first, ...others] = servers
  await first?.start()
  const began = performance.now()
  await poll(ask, ({ status }) => status === 200, { everyMs: 10 })
  const recoveredMs = performance.now() - began
  for (const server of others) {
    const before = (await server.executions()).length
    await server.start()
    await poll(async () => (await ask()) && (await server.executions()).length > before)
  }
  return { noticedMs, answers, recoveredMs }
}

/** Status 0 when there is no answer in time. */
function answerOf(port: number, host: string, agent: Agent, patienceMs: number): Promise<Answer> {
  const began = performance.now()
  return new Promise((resolve, reject) => {
    const where = { host: '127.0.0.1', port, servername: host, headers: { host }, agent, rejectUnauthorized: false }
    const sent = request({ ...where, timeout: patienceMs }, async (response) => {
      const text = String(await response.toArray())
      const code = /ERR_\w+/.exec(text)?.[0]
      const id = response.headers['x-request-id']
      const ms = performance.now() - began
      resolve({ status: response.statusCode ?? 0, ...(code && { code }), ...(id && { id: String(id) }), ms })
    })
    sent.on('timeout', () => resolve({ status: 0, ms: patienceMs }))
    sent.on('timeout', () => sent.destroy())
    sent.on('error', reject).end()
  })
}
