import type { IncomingMessage } from 'node:http'
import { Refusal } from '../kernel/errors.ts'

const jsonType = /^application\/json(?:\s*;\s*charset="?utf-8"?)?\s*$/i

export function hasBody(request: IncomingMessage): boolean {
  const length = request.headers['content-length']
  return request.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0')
}

/**
 * Leaving the loop early must not destroy the socket: the refusal still has to go out on it. What else arrives is let
 * go, or the next request on the connection would wait behind it until the request timeout.
 */
export async function* chunksOf(request: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    yield* request.iterator({ destroyOnReturn: false })
  } finally {
    request.resume()
  }
}

/** GET and DELETE carry nothing; what they might carry would be read differently by every proxy on the way. */
export async function refuseBody(request: IncomingMessage): Promise<void> {
  if (!hasBody(request)) return
  for await (const chunk of chunksOf(request)) {
    if (chunk.length) throw new Refusal('ERR_MALFORMED_REQUEST', `Send ${request.method} requests without a body.`)
  }
}

export async function readJson(request: IncomingMessage, limitBytes: number): Promise<unknown> {
  requireType(request, jsonType, 'application/json')
  const bytes = await readAll(request, limitBytes)
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new Refusal('ERR_INVALID_JSON', 'The body is not UTF-8. Encode it as UTF-8.', { cause })
  }
  return parseJson(text)
}

/** The media type without its parameters, in lower case; empty when there is none or more than one. */
export function declaredType(request: IncomingMessage): string {
  const declared = request.headersDistinct['content-type'] ?? []
  return declared.length === 1 ? ((declared[0] ?? '').split(';')[0]?.trim().toLowerCase() ?? '') : ''
}

function requireType(request: IncomingMessage, pattern: RegExp, wanted: string): void {
  const declared = request.headersDistinct['content-type'] ?? []
  if (declared.length === 1 && pattern.test(declared[0] ?? '')) return
  throw new Refusal('ERR_CONTENT_TYPE', `Send the body with 'Content-Type: ${wanted}'.`)
}

async function readAll(request: IncomingMessage, limitBytes: number): Promise<Buffer> {
  const tooLarge = () => new Refusal('ERR_BODY_TOO_LARGE', `The body must be at most ${limitBytes} bytes.`)
  if (Number(request.headers['content-length'] ?? 0) > limitBytes) throw tooLarge()
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of chunksOf(request)) {
    length += chunk.length
    if (length > limitBytes) throw tooLarge()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}

export function parseJson(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new Refusal('ERR_INVALID_JSON', 'The body is not well-formed JSON. Check its quotes, commas and brackets.', {
      cause,
    })
  }
  const duplicate = duplicateKey(text)
  if (duplicate === undefined) return value
  throw new Refusal(
    'ERR_INVALID_JSON',
    `The body has the key ${JSON.stringify(duplicate)} twice in one object. Send each key once.`,
  )
}

const token = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]/g

/**
 * The first key that an object of this well-formed JSON text has twice. JSON.parse keeps the last one silently,
 * other parsers the first: two programs on the way would read two different requests.
 */
function duplicateKey(text: string): string | undefined {
  const scopes: (Set<string> | undefined)[] = []
  let mayBeKey = false
  for (const [found] of text.matchAll(token)) {
    if (found === '{') scopes.push(new Set())
    else if (found === '[') scopes.push(undefined)
    else if (found === '}' || found === ']') scopes.pop()
    else if (found.startsWith('"') && mayBeKey) {
      const keys = scopes.at(-1)
      const key: string = JSON.parse(found)
      if (keys?.has(key)) return key
      keys?.add(key)
    }
    mayBeKey = found === '{' || (found === ',' && scopes.at(-1) !== undefined)
  }
  return undefined
}
