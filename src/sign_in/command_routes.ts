import { hash, randomInt } from 'node:crypto'
import { readJson } from '../http/input/body.ts'
import type { PlainAnswer, PlainRequest, PlainRoute } from '../http/plain.ts'
import type { Service } from '../http/service.ts'
import { hashToken, newToken } from '../identity/token.ts'
import { invalidField, Refusal } from '../kernel/errors.ts'
import { toId, type Uuid } from '../kernel/ids.ts'
import { collect, commandSignInSeconds, insertCommandSignIn, stateOf } from '../resources/command_sign_in/store.ts'

// No vowels, which avoids words, and no similar letters. 20^8 codes, each valid for ten minutes.
const letters = 'BCDFGHJKLMNPQRSTVWXZ'
const someLetters = () => Array.from({ length: 4 }, () => letters[randomInt(letters.length)]).join('')
const bodyLimitBytes = 4_096
const intervalSeconds = 2

/**
 * Signs in the command line: the command asks here, a person approves in the dashboard, and the command collects its
 * key with a secret that never left it, as in PKCE. Neither the displayed code nor the URL in the browser suffices.
 */
export const commandRoutes = (service: Service): readonly PlainRoute[] => [
  {
    operation: 'sign_in.command_start',
    method: 'POST',
    path: '/sign_in/command',
    handle: (request) => start(service, request),
  },
  {
    operation: 'sign_in.command_collect',
    method: 'POST',
    path: '/sign_in/command/token',
    handle: (request) => collectKey(service, request),
  },
]

async function fieldsOf({ raw }: PlainRequest, limits: Record<string, number>): Promise<Record<string, string>> {
  const body = await readJson(raw, bodyLimitBytes)
  const given = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>
  return Object.fromEntries(
    Object.entries(limits).map(([name, most]) => {
      const value = given[name]
      // Printable ASCII: a person decides by what the page shows.
      if (typeof value !== 'string' || !/^[\x21-\x7e][\x20-\x7e]*$/.test(value) || value.length > most)
        throw invalidField(name, `must be at most ${most} characters of printable ASCII`)
      return [name, value]
    }),
  )
}

async function start({ db, publicUrl }: Service, request: PlainRequest): Promise<PlainAnswer> {
  const { challenge = '', client = '', host = '' } = await fieldsOf(request, { challenge: 64, client: 100, host: 100 })
  if (!/^[\w-]{43}$/.test(challenge)) throw invalidField('challenge', 'must be a SHA-256 in base64url')
  const code = `${someLetters()}-${someLetters()}`
  const started = await insertCommandSignIn(db, {
    code,
    challenge: Buffer.from(challenge, 'base64url'),
    client,
    host,
    sourceIp: request.sourceIp,
  })
  if (!started) throw new Refusal('ERR_UNAVAILABLE', 'The code that was chosen is in use. Try again.')
  return {
    status: 201,
    body: {
      id: started.id,
      code,
      url: `${publicUrl}/dashboard/cli-login?code=${code}`,
      expires_in: commandSignInSeconds,
      interval: intervalSeconds,
    },
  }
}

async function collectKey({ db }: Service, request: PlainRequest): Promise<PlainAnswer> {
  const { id = '', verifier = '' } = await fieldsOf(request, { id: 36, verifier: 128 })
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id))
    throw invalidField('id', 'must be what the start returned')
  const challenge = hash('sha256', verifier, 'buffer')
  const token = newToken()
  const collected = await collect(db, id as Uuid, challenge, hashToken(token))
  if (collected) {
    const { api_key_id, expires_at } = collected
    return { status: 200, body: { status: 'approved', token, api_key_id: toId('ak', api_key_id), expires_at } }
  }
  const state = await stateOf(db, id as Uuid, challenge)
  return { status: 200, body: { status: !state ? 'expired' : state.denied ? 'denied' : 'pending' } }
}
