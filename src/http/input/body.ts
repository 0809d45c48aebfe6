import type { IncomingMessage } from 'node:http'
import { Refusal, shortened } from '../../kernel/errors.ts'

/** No JSON body is longer: parsing one blocks every other request, and takes many times its size. */
export const maxJsonBytes = 1024 * 1024

/** How a body may be read. */
export type Intake = {
  readonly limitBytes: number
  /** To be awaited once, before anything beyond `maxJsonBytes` is read. It refuses a caller who could not use it. */
  readonly beforeLarge: () => Promise<void>
  /** To be called with the size of what is kept. It refuses when too much is kept already. */
  readonly hold: (bytes: number) => void
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

const jsonType = /^application\/json(?:\s*;\s*charset=(?:utf-8|"utf-8"))?\s*$/i

const formType = /^application\/x-www-form-urlencoded(?:\s*;.*)?$/i

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
  } catch (cause) {
    throw endedEarly(cause)
  } finally {
    request.resume()
  }
}

const endedEarly = (cause: unknown): Refusal =>
  new Refusal('ERR_MALFORMED_REQUEST', 'The request ended before its body was complete.', { cause })

/** The chunks of a body that is read as it arrives, within the limits of its intake. */
export async function* chunksWithin(request: IncomingMessage, intake: Intake): AsyncGenerator<Buffer> {
  const { limitBytes, beforeLarge, hold } = intake
  let isLarge = declaredLength(request) > maxJsonBytes
  if (isLarge) await beforeLarge()
  let length = 0
  for await (const chunk of chunksOf(request)) {
    length += chunk.length
    if (length > limitBytes) throw tooLarge(limitBytes)
    if (!isLarge && length > maxJsonBytes) {
      isLarge = true
      await beforeLarge()
    }
    hold(chunk.length)
    yield chunk
  }
}

/** GET and DELETE carry nothing; what they might carry would be read differently by every proxy on the way. */
export async function refuseBody(request: IncomingMessage): Promise<void> {
  if (!hasBody(request)) return
  for await (const chunk of chunksOf(request)) {
    if (chunk.length)
      throw new Refusal('ERR_MALFORMED_REQUEST', `${request.method} requests must not have a body. Remove it.`)
  }
}

/** `largerAs`: the content type in which the operation takes what is too large for JSON, if there is one. */
export async function readJson(request: IncomingMessage, limitBytes: number, largerAs?: string): Promise<unknown> {
  requireType(request, jsonType, 'application/json')
  const bytes = await readAll(request, limitBytes, largerAs)
  if (bytes.length === 0) throw new Refusal('ERR_INVALID_JSON', 'The body is empty. Send at least {}.')
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch (cause) {
    throw new Refusal('ERR_INVALID_JSON', 'The body is not UTF-8. Encode it as UTF-8.', { cause })
  }
  return parseJson(text)
}

/** A form, as browsers and providers send it. */
export async function readForm(request: IncomingMessage, limitBytes: number): Promise<URLSearchParams> {
  requireType(request, formType, 'application/x-www-form-urlencoded')
  return new URLSearchParams((await readAll(request, limitBytes, undefined)).toString('utf8'))
}

/** The media type without its parameters, in lower case; empty when there is none or more than one. */
export function declaredType(request: IncomingMessage): string {
  const declared = request.headersDistinct['content-type'] ?? []
  return declared.length === 1 ? ((declared[0] ?? '').split(';')[0]?.trim().toLowerCase() ?? '') : ''
}

function requireType(request: IncomingMessage, pattern: RegExp, wanted: string): void {
  refuseCoding(request)
  const declared = request.headersDistinct['content-type'] ?? []
  if (declared.length === 1 && pattern.test(declared[0] ?? '')) return
  throw new Refusal('ERR_CONTENT_TYPE', `Send the body with 'Content-Type: ${wanted}'.`)
}

/** A compressed body could be read as something else on the way, and expand beyond any limit here. */
export function refuseCoding({ headersDistinct }: IncomingMessage): void {
  const { 'content-encoding': codings = [] } = headersDistinct
  if (codings.some((coding) => coding.toLowerCase() !== 'identity'))
    throw new Refusal(
      'ERR_CONTENT_TYPE',
      'Send the body without Content-Encoding: compressed bodies are not supported.',
    )
}

export const declaredLength = (request: IncomingMessage): number => Number(request.headers['content-length'] ?? 0)

export function tooLarge(limitBytes: number, largerAs?: string): Refusal {
  const message = largerAs
    ? `A JSON body must be at most ${limitBytes} bytes. Send larger bodies as ${largerAs}.`
    : `The body must be at most ${limitBytes} bytes.`
  return new Refusal('ERR_BODY_TOO_LARGE', message)
}

/** By events: a loop over the chunks waits three times for a body that has long arrived. */
function readAll(request: IncomingMessage, limitBytes: number, largerAs: string | undefined): Promise<Buffer> {
  if (declaredLength(request) > limitBytes) return Promise.reject(tooLarge(limitBytes, largerAs))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    const incomplete = (cause?: unknown) => reject(endedEarly(cause))
    request.on('data', (chunk: Buffer) => {
      length += chunk.length
      // What else arrives is let go; see `chunksOf`.
      if (length > limitBytes) reject(tooLarge(limitBytes, largerAs))
      else chunks.push(chunk)
    })
    request.once('end', () => {
      request.off('close', incomplete)
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks))
    })
    request.once('error', incomplete)
    request.once('close', incomplete)
    if (request.destroyed) incomplete()
  })
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
    `The body repeats the key ${JSON.stringify(shortened(duplicate))} within one object. Send each key once.`,
  )
}

/**
 * The first key that an object of this well-formed JSON text has twice. JSON.parse keeps the last one silently,
 * other parsers the first: two programs on the way would read two different requests.
 */
function duplicateKey(text: string): string | undefined {
  const scopes: (Set<string> | undefined)[] = []
  let keys: Set<string> | undefined
  let mayBeKey = false
  // Character by character: a pattern that finds the tokens took ten times as long, and everyone waits for it.
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case quote: {
        const begin = at
        at = endOfString(text, at)
        if (!mayBeKey || !keys) break
        mayBeKey = false
        const written = text.slice(begin + 1, at)
        const key: string = written.includes('\\') ? JSON.parse(text.slice(begin, at + 1)) : written
        if (keys.has(key)) return key
        keys.add(key)
        break
      }
      case openBrace:
      case openBracket: {
        const isObject = text.charCodeAt(at) === openBrace
        scopes.push(keys)
        keys = isObject ? new Set() : undefined
        mayBeKey = isObject
        break
      }
      case closeBrace:
      case closeBracket:
        keys = scopes.pop()
        mayBeKey = false
        break
      case comma:
        mayBeKey = keys !== undefined
    }
  }
  return undefined
}

const [quote, backslash, openBrace, closeBrace, openBracket, closeBracket, comma] = [...'"\\{}[],'].map((character) =>
  character.charCodeAt(0),
)

/** Where the string that begins here ends. */
function endOfString(text: string, begin: number): number {
  let end = begin + 1
  while (text.charCodeAt(end) !== quote) end += text.charCodeAt(end) === backslash ? 2 : 1
  return end
}
