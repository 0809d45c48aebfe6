import assert from 'node:assert/strict'
import type { ControlPlane } from './control_plane.ts'
import { type HeaderLine, rawExchange } from './raw.ts'

/**
 * Requests as the vendor's client libraries send them, with their headers in their order and spelling, and what those
 * libraries need in the responses. Taken from their public sources: the tests do not run the libraries.
 */
export type Sender = {
  headers: (token: string, hasBody: boolean) => HeaderLine[]
  /** How the library writes JSON. */
  encode: (body: object) => string
  /** Whether its PATCH, and its POST of a route, repeat the ids of the path in the body. */
  repeatsIds: boolean
  /** What it does with a text that is not given on creation. */
  emptyTexts: boolean
}

export const vendorClients: Record<string, Sender> = {
  Go: {
    headers: (token, hasBody) => [
      ['User-Agent', 'ngrok-api-go/v6.1.0/1.22.0'],
      ['Authorization', `Bearer ${token}`],
      ...((hasBody ? [['Content-Type', 'application/json']] : []) as HeaderLine[]),
      ['Ngrok-Version', '2'],
      ['Accept-Encoding', 'gzip'],
    ],
    // encoding/json escapes what could be HTML.
    encode: (body) =>
      JSON.stringify(body).replaceAll(/[<>&]/g, (found) => `\\u00${found.charCodeAt(0).toString(16).padStart(2, '0')}`),
    repeatsIds: false,
    emptyTexts: false,
  },
  Python: {
    headers: (token, hasBody) => [
      ['User-Agent', 'python-requests/2.31.0'],
      ['Accept-Encoding', 'gzip, deflate'],
      ['Accept', '*/*'],
      ['Connection', 'keep-alive'],
      ['ngrok-version', '2'],
      ['authorization', `Bearer ${token}`],
      ...((hasBody ? [['Content-Type', 'application/json']] : []) as HeaderLine[]),
    ],
    // json.dumps puts spaces after commas and colons, and writes ASCII only.
    encode: (body) =>
      JSON.stringify(body, null, 1)
        .replaceAll(/\n\s*/g, ' ')
        .replaceAll(/[{[] | [}\]]/g, (found) => found.trim())
        .replaceAll(/[^\0-\x7f]/g, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`),
    repeatsIds: false,
    emptyTexts: true,
  },
  TypeScript: {
    headers: (token) => [
      ['User-Agent', 'ngrok-api-typescript/0.10.0/v24.21.0'],
      ['Ngrok-Version', '2'],
      // Also on GET and DELETE, which have no body.
      ['Content-Type', 'application/json'],
      ['Authorization', `Bearer ${token}`],
      ['Accept', '*/*'],
      ['Accept-Encoding', 'gzip,deflate'],
      ['Connection', 'keep-alive'],
    ],
    encode: (body) => JSON.stringify(body),
    repeatsIds: true,
    emptyTexts: false,
  },
}

/** What a typed client can take: each field it knows, when it is there, must be of its type. Others it ignores. */
export type Shape = {
  readonly [field: string]:
    | 'string'
    | 'string?'
    | 'boolean'
    | 'number'
    | 'strings'
    | 'texts'
    | 'numbers'
    | Shape
    | readonly [Shape]
}
export const Ref: Shape = { id: 'string', uri: 'string' }
export const annotated: Shape = {
  id: 'string',
  uri: 'string',
  created_at: 'string',
  description: 'string',
  metadata: 'string',
}
export const listOf = (field: string, item: Shape): Shape => ({
  [field]: [item],
  uri: 'string',
  next_page_uri: 'string?',
})

/** As strict as decoding into a struct: null is taken for 'not there', another type is an error. */
function decode(shape: Shape, value: Record<string, unknown>, at = ''): void {
  for (const [field, wanted] of Object.entries(shape)) {
    const found = value[field]
    const where = `${at}.${field} is ${JSON.stringify(found)}`
    if (found === undefined || found === null) continue
    if (wanted === 'string' || wanted === 'string?') assert.equal(typeof found, 'string', where)
    else if (wanted === 'boolean' || wanted === 'number') assert.equal(typeof found, wanted, where)
    else if (wanted === 'strings')
      assert.ok(Array.isArray(found) && found.every((one) => typeof one === 'string'), where)
    else if (wanted === 'texts' || wanted === 'numbers')
      assert.ok(
        Object.values(found).every((one) => typeof one === (wanted === 'texts' ? 'string' : 'number')),
        where,
      )
    else if (Array.isArray(wanted)) {
      assert.ok(Array.isArray(found), where)
      for (const one of found) decode(wanted[0], one, `${at}.${field}`)
    } else decode(wanted as Shape, found as Record<string, unknown>, `${at}.${field}`)
  }
}

/** A new account, and calls of it as a library makes them. */
export async function vendorSession(plane: ControlPlane, sender: Sender) {
  const { token } = await plane.newAccount()
  const send = async (method: string, path: string, status: number, shape?: Shape, body?: object) => {
    const text = body && sender.encode(body)
    const answer = await rawExchange(plane, {
      method,
      path,
      headers: sender.headers(token, text !== undefined),
      ...(text !== undefined && { body: text }),
    })
    assert.equal(answer.status, status, `${method} ${path} ${text}: ${answer.text}`)
    if (!shape) assert.equal(answer.text, '')
    else decode(shape, answer.body)
    return answer.body
  }
  /** A creation by this library: it leaves out texts that are not given, or sends them empty. */
  const create = (path: string, shape: Shape, body: object) =>
    send('POST', path, 201, shape, sender.emptyTexts ? { description: '', metadata: '', ...body } : body)
  const patch = (path: string, shape: Shape, ids: object, body: object) =>
    send('PATCH', path, 200, shape, sender.repeatsIds ? { ...ids, ...body } : body)
  return { send, create, patch }
}
