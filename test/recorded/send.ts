import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { text as textOf } from 'node:stream/consumers'
import { poll } from '../harness/poll.ts'
import type { Request, Response } from './exchanges.ts'

/** HTTP's own, which say nothing about the service. */
const ofHttp = new Set(['date', 'connection', 'keep-alive', 'transfer-encoding', 'content-length'])
const agent = new Agent({ keepAlive: true, maxSockets: 1 })

/** Sends a request to the server, with values in the place of its placeholders. */
export async function send(origin: string, request: Request, fill: (text: string) => string): Promise<Response> {
  const { until } = request
  if (until === undefined) return sendOnce(origin, request, fill)
  return poll(
    () => sendOnce(origin, request, fill),
    ({ body }) => body.includes(until),
  )
}

async function sendOnce(origin: string, { as, request, headers = {}, body }: Request, fill: (text: string) => string) {
  const [method = '', path = ''] = request.split(' ')
  const lines = Object.entries({
    Host: 'gatehouse',
    'Service-Version': '2',
    ...(as && { Authorization: `Bearer {${as}}` }),
    ...(body !== undefined && { 'Content-Type': 'application/json' }),
    ...headers,
  }).flatMap(([name, values]) => [values ?? []].flat().map((value) => [name, fill(value)]))
  const sent = body === undefined ? undefined : fill(body)
  if (sent !== undefined) lines.push(['Content-Length', String(Buffer.byteLength(sent))])
  const outgoing = httpRequest(origin, { method, path: fill(path), agent, headers: lines.flat() }).end(sent)
  const [message]: IncomingMessage[] = await once(outgoing, 'response')
  assert.ok(message)
  const text = await textOf(message)
  const length = message.headers['content-length']
  if (length !== undefined && method !== 'HEAD') assert.equal(Number(length), Buffer.byteLength(text))
  const status = message.statusCode ?? 0
  const interesting = Object.entries(message.headersDistinct)
    .filter(([name]) => !ofHttp.has(name))
    .map(([name, values = []]) => [name, values.join(', ')] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return { status, headers: Object.fromEntries(interesting), body: status < 400 ? text : withoutWording(text) }
}

const withoutWording = (body: string): string => body.replace(/("msg":)"(?:[^"\\]|\\.)*"/, '$1"…"')
