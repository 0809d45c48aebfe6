import type { IncomingMessage } from 'node:http'
import { Refusal, shortened } from '../../kernel/errors.ts'

/** Limit of a JSON body: parsing blocks all other requests, and needs many times the size of the body in memory. */
export const maxJsonBytes = 1024 * 1024

export type Intake = {
  readonly limitBytes: number
  /** Awaited once, before anything beyond `maxJsonBytes` is read. Throws if the caller may not use the operation. */
  readonly beforeLarge: () => Promise<void>
  /** Called with the size of buffered data. Throws if the process already buffers too much. */
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
 * `destroyOnReturn` is off because the refusal still has to be sent over the socket. The remaining data is discarded;
 * otherwise the next request on the connection would wait behind it until the request timeout.
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

/** Streams the chunks of a body within the limits of its intake. */
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

/** A body on GET or DELETE has no meaning, and each proxy on the way may interpret it differently. */
export async function refuseBody(request: IncomingMessage): Promise<void> {
  if (!hasBody(request)) return
  for await (const chunk of chunksOf(request)) {
    if (chunk.length)
      throw new Refusal('ERR_MALFORMED_REQUEST', `${request.method} requests must not have a body. Remove it.`)
  }
}

/** `largerAs`: the content type, if any, in which the operation accepts input that is too large for JSON. */
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

/** Reads a form, as browsers and identity providers submit it. */
export async function readForm(request: IncomingMessage, limitBytes: number): Promise<URLSearchParams> {
  requireType(request, formType, 'application/x-www-form-urlencoded')
  return new URLSearchParams((await readAll(request, limitBytes, undefined)).toString('utf8'))
}

/** The media type in lower case, without parameters; empty if there is none or more than one. */
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

/** An intermediary could decode a compressed body differently, and decompression would bypass the size limits. */
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

/** Uses events: an async loop over the chunks awaits three times for a body that has already arrived. */
function readAll(request: IncomingMessage, limitBytes: number, largerAs: string | undefined): Promise<Buffer> {
  if (declaredLength(request) > limitBytes) return Promise.reject(tooLarge(limitBytes, largerAs))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    const incomplete = (cause?: unknown) => reject(endedEarly(cause))
    request.on('data', (chunk: Buffer) => {
      length += chunk.length
      // The rest is discarded; see `chunksOf`.
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
 * Finds the first duplicate key in well-formed JSON. JSON.parse keeps the last value and other parsers the first, so
 * two programs on the way would read different requests.
 */
function duplicateKey(text: string): string | undefined {
  const scopes: (Set<string> | undefined)[] = []
  let keys: Set<string> | undefined
  let mayBeKey = false
  // Character by character: a regular expression took ten times as long, and blocks all other requests.
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

function endOfString(text: string, begin: number): number {
  let end = begin + 1
  while (text.charCodeAt(end) !== quote) end += text.charCodeAt(end) === backslash ? 2 : 1
  return end
}
