// `gatehouse mcp` as a process: what it writes, when it ends, and what it says when the service does not answer.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { startStranger } from '../client/failing_proxy.ts'
import { gatehouse } from '../harness/command.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { poll } from '../harness/poll.ts'
import { program } from '../harness/program.ts'
import { environment, startSession } from './session.ts'

const plane = await startControlPlane({ after }, { env: { GATEHOUSE_REQUESTS_PER_MINUTE: '5' } })
const url = plane.processes[0]?.origin ?? ''

const request = (id: number, method: string, params: object) => ({ jsonrpc: '2.0', id, method, params })
const handshake = request(1, 'initialize', {
  protocolVersion: '2025-06-18',
  capabilities: {},
  clientInfo: { name: 'a test', version: '1' },
})
const reading = (id: number) => request(id, 'tools/call', { name: 'read', arguments: { operation: 'caller.get' } })

/** Started as it is, without the client of the SDK. */
function start(origin: string, token: string) {
  // Longer than the test may take: no request ends by itself.
  const child = spawn(process.execPath, [program, 'mcp', '--timeout', '3600'], {
    env: environment(origin, token),
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: loadScaledTimeout(30_000),
    killSignal: 'SIGKILL',
  })
  let written = ''
  child.stdout.on('data', (part: Buffer) => {
    written += part
  })
  return {
    send: (...messages: object[]) => child.stdin.write(messages.map((each) => `${JSON.stringify(each)}\n`).join('')),
    lines: () => written.split('\n').slice(0, -1),
    written: () => written,
    async end() {
      child.stdin.end()
      const [[code], stderr] = await Promise.all([once(child, 'exit'), text(child.stderr)])
      return { code, stderr }
    },
  }
}

test('standard output has protocol messages only, even after faulty ones, and the process ends with its input', async () => {
  const { token } = await plane.newAccount()
  const { send, lines, written, end } = start(url, token)
  send(handshake, { jsonrpc: '2.0', method: 'notifications/initialized' }, request(2, 'tools/list', {}), reading(3))
  send(request(4, 'tools/call', { name: 'apply', arguments: {} }), request(5, 'no/such/method', {}), { neither: 'nor' })
  await poll(() => [1, 2, 3, 4, 5].every((id) => lines().some((line) => JSON.parse(line).id === id)))
  const { code, stderr } = await end()
  assert.deepEqual([code, stderr], [0, ''])
  assert.ok(written().endsWith('\n'))
  for (const line of lines()) assert.equal(JSON.parse(line).jsonrpc, '2.0')
  const answer = (id: number) =>
    lines()
      .map((line) => JSON.parse(line))
      .find((each) => each.id === id)
  assert.match(answer(1).result.instructions, /never an instruction/)
  assert.equal(answer(2).result.tools.length, 9)
  assert.match(answer(3).result.content[0].text, /account_id/)
})

test('it ends with its input even while the service does not answer', async (t) => {
  const silent = await startStranger(t, () => {})
  const { send, end } = start(silent.url, 'gatehouse_x')
  send(handshake, { jsonrpc: '2.0', method: 'notifications/initialized' }, reading(2))
  await poll(() => silent.received.length > 0)
  assert.equal((await end()).code, 0)
})

test('without a server to call it does not start, and says what to set', async () => {
  const { code, stdout, stderr } = await gatehouse(['mcp'], { XDG_CONFIG_HOME: '/nonexistent' })
  assert.deepEqual([code, stdout], [2, ''])
  assert.match(stderr, /no server configured[\s\S]*GATEHOUSE_URL/)
})

test('a service that is down, a token that is refused and a limit are explained, with what to do', async (t) => {
  const down = await startSession(t, 'http://127.0.0.1:9', 'gatehouse_x')
  assert.match(
    await down.refused('read', { operation: 'caller.get' }),
    /cannot be reached[\s\S]*Check that it is running/,
  )
  assert.ok((await down.data('list_operations')).operations.length > 50)

  const foreign = await startStranger(t, (outgoing) => outgoing.writeHead(502).end('<html><title>Oops</title>'))
  const behind = await startSession(t, foreign.url, 'gatehouse_x')
  assert.match(await behind.refused('read', { operation: 'caller.get' }), /is not Gatehouse/)

  const wrong = `gatehouse_${'x'.repeat(49)}`
  const refused = await startSession(t, url, wrong)
  const said = await refused.refused('read', { operation: 'caller.get' })
  assert.match(said, /does not accept the token of GATEHOUSE_API_KEY[\s\S]*hint: The token is mistyped, deleted/)
  assert.ok(!refused.said().includes(wrong))

  const { token } = await plane.newAccount()
  const limited = await startSession(t, url, token)
  let last = { isError: false, text: '' }
  for (let call = 0; call < 20 && !last.isError; call++) last = await limited.call('read', { operation: 'caller.get' })
  assert.match(last.text, /ERR_RATE_LIMITED[\s\S]*Wait \d+ s before you try again/)
})
