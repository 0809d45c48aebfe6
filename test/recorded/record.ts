// Sends every request in exchanges.yaml to a running server, and writes the responses there:
//   node test/recorded/record.ts <base URL> <token of an admin> <token of an admin of another account>
// The accounts must be new. The server needs the settings of test/recorded.test.ts and the same public URL.
import { type Exchange, type Response, readRequests, writeExchanges } from './exchanges.ts'
import { Placeholders } from './placeholders.ts'
import { send } from './send.ts'

const [origin, admin, other] = process.argv.slice(2)
if (!origin || !admin || !other) throw new Error('usage: record.ts <base URL> <token> <token of another account>')
const known = new Placeholders(Object.entries({ admin, other }))

function named({ status, headers, body }: Response): Response {
  const lines = Object.entries(headers).map(([name, value]) => [name, known.name(value)])
  return { status, headers: Object.fromEntries(lines), body: known.name(body) }
}

const recorded: Exchange[] = []
for (const { title, as, request, headers, body, until } of await readRequests()) {
  const sent = { title, as, request, headers, body, until }
  recorded.push({ ...sent, response: named(await send(origin, sent, known.fill)) })
  // A time in the next response must not happen to be one of this response: they would share a placeholder.
  for (const last = Date.now(); Date.now() === last; );
}
await writeExchanges(recorded)
console.log(`recorded ${recorded.length} exchanges`)
process.exit()
