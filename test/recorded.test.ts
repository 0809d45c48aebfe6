// What clients of an earlier version relied on: its responses, byte for byte, to the requests in recorded/.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { noteToken } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { poll } from './harness/poll.ts'
import { differences, withoutNewFields } from './recorded/differences.ts'
import { type Exchange, type Response, readExchanges } from './recorded/exchanges.ts'
import { Placeholders } from './recorded/placeholders.ts'
import { send } from './recorded/send.ts'

const plane = await startControlPlane(
  { after },
  { env: { GATEHOUSE_VERSION_HEADER_ALIASES: 'Ngrok-Version', GATEHOUSE_TRUSTED_PROXIES: '127.0.0.1' } },
)
const origin = plane.processes[0]?.origin ?? ''
const exchanges = await readExchanges()
const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
const known = new Placeholders(Object.entries({ admin: admin.token, other: other.token }))

function expectedToday(exchange: Exchange, before: Response): Response {
  const difference = differences.find(({ appliesTo }) => appliesTo(exchange))
  return difference?.today(exchange.response, before) ?? exchange.response
}

const headerLines = ({ headers }: Response): string =>
  Object.entries(headers)
    .map((line) => line.join(': '))
    .sort()
    .join('\n')

const isAsExpected = (expected: Response, actual: Response): boolean =>
  actual.status === expected.status &&
  known.matches(headerLines(expected), headerLines(actual)) &&
  known.matches(expected.body, actual.body)

function readable({ status, headers, body }: Response): Response {
  const lines = Object.entries(headers).map(([name, value]) => [name, known.nameKnown(value)])
  return { status, headers: Object.fromEntries(lines), body: known.nameKnown(body) }
}

test('every recorded request gets the same response today, apart from the listed differences', async () => {
  // Some counts are by the hour, and must not fall into two.
  await poll(() => Date.now() % 3_600_000 < 3_580_000)
  const unlike: object[] = []
  let before: Response = { status: 0, headers: {}, body: '' }
  for (const exchange of exchanges) {
    const { title, request } = exchange
    // After a difference, a later request may lack the id that it needs: the difference is what to look at.
    if (unlike.length > 0 && !known.canFill(exchange)) continue
    const actual = withoutNewFields(await send(origin, exchange, known.fill))
    const expected = expectedToday(exchange, before)
    if (!isAsExpected(expected, actual)) unlike.push({ title, request, expected, actual: readable(actual) })
    // Enough to see what they have in common; a diff of hundreds would take minutes.
    if (unlike.length === 5) break
    before = exchange.response
  }
  for (const token of known.tokens()) noteToken(token)
  assert.deepEqual(unlike, [])
})

test('every listed difference applies to a recorded request', () => {
  const unused = differences.filter(({ appliesTo }) => !exchanges.some((exchange) => appliesTo(exchange)))
  assert.deepEqual(unused, [])
})
