import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import Provider from 'oidc-provider'
import type { Scope } from '../harness/control_plane.ts'

export type Person = { sub: string } & Record<string, unknown>
type Key = { private: Awaited<ReturnType<typeof generateKeyPair>>['privateKey']; jwk: JWK }

/** A certified provider, whose people sign in without being asked, and whose tokens can be forged on the way. */
export type TestProvider = {
  readonly issuer: string
  /** Who signs in next. */
  person: Person
  /** Changes the ID token before it is delivered, with the provider's own key unless another is given. */
  forge?: ((claims: Record<string, unknown>) => Record<string, unknown>) | undefined
  forgedWith?: Key | undefined
  /** Every connection is cut. */
  isDown: boolean
  readonly rotateKeys: () => Promise<void>
  /** A token that the provider signs, such as a logout token. */
  readonly sign: (claims: Record<string, unknown>, typ?: string) => Promise<string>
}

let keys = 0
export async function newKey(kid = `key-${++keys}`): Promise<Key> {
  const pair = await generateKeyPair('RS256', { extractable: true })
  return { private: pair.privateKey, jwk: { ...(await exportJWK(pair.privateKey)), kid, alg: 'RS256', use: 'sig' } }
}

type Options = { host?: string; client: Record<string, unknown> & { client_id: string } }

export async function startProvider(scope: Scope, { host = '127.0.0.1', client }: Options): Promise<TestProvider> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://${host}:${(server.address() as { port: number }).port}`
  scope.after(async () => {
    server.closeAllConnections()
    server.close()
  })
  let key = await newKey()
  let provider = make(issuer, key, client, () => state.person)
  const state: TestProvider = {
    issuer,
    person: { sub: 'no-person' },
    isDown: false,
    async rotateKeys() {
      key = await newKey()
      provider = make(issuer, key, client, () => state.person)
    },
    sign: (claims, typ = 'JWT') => signWith(key, claims, typ),
  }
  server.on('request', async (request: IncomingMessage, response: ServerResponse) => {
    if (state.isDown) return request.socket.destroy()
    if (request.url?.startsWith('/interaction/'))
      return provider.interactionFinished(request, response, { login: { accountId: state.person.sub } })
    if (request.url === '/token' && state.forge) forgeAnswer(response, state, () => key)
    return provider.callback()(request, response)
  })
  return state
}

const signWith = (key: Key, claims: Record<string, unknown>, typ: string): Promise<string> =>
  new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: key.jwk.kid ?? '', typ }).sign(key.private)

/** Waits with the answer until its ID token is another one. */
function forgeAnswer(response: ServerResponse, { forge, forgedWith }: TestProvider, ownKey: () => Key): void {
  const end = response.end.bind(response)
  Object.assign(response, {
    end(chunk: Buffer | string) {
      const body = JSON.parse(String(chunk))
      if (!body.id_token) return end(chunk)
      const claims = JSON.parse(Buffer.from(body.id_token.split('.')[1], 'base64url').toString())
      signWith(forgedWith ?? ownKey(), forge?.(claims) ?? claims, 'JWT').then((id_token) => {
        const text = JSON.stringify({ ...body, id_token })
        response.setHeader('content-length', Buffer.byteLength(text))
        end(text)
      })
      return response
    },
  })
}

function make(issuer: string, key: Key, client: Options['client'], person: () => Person): Provider {
  const provider = new Provider(issuer, {
    clients: [client],
    jwks: { keys: [key.jwk] },
    cookies: { keys: ['of a test'] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'], groups: ['groups'] },
    scopes: ['openid', 'email', 'profile', 'groups'],
    features: {
      devInteractions: { enabled: false },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: {
        enabled: true,
        logoutSource(context: { body: string }, form: string) {
          context.body = `<!doctype html><body>${form}<button form="op.logoutForm" name="logout" value="yes">Leave</button>`
        },
      },
    },
    interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    findAccount: (_context: unknown, sub: string) => ({
      accountId: sub,
      claims: () => ({ ...person(), sub }),
    }),
    // No question whether people agree: that is the provider's business.
    async loadExistingGrant({ oidc }: { oidc: { session: { accountId: string }; client: { clientId: string } } }) {
      const grant = new provider.Grant({ accountId: oidc.session.accountId, clientId: oidc.client.clientId })
      grant.addOIDCScope('openid email profile groups')
      await grant.save()
      return grant
    },
  })
  return provider
}
