import assert from 'node:assert/strict'
import { hash, randomBytes } from 'node:crypto'
import { after, test } from 'node:test'
import pg from 'pg'
import { isWellFormedToken, newToken } from '../src/identity/token.ts'
import { toUuid } from '../src/kernel/ids.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { poll } from './harness/poll.ts'

const plane = await startControlPlane({ after })
const admin = await plane.newAccount()
const [server] = plane.processes
assert.ok(server)

const observer = new pg.Client({ connectionString: plane.databaseUrl, application_name: 'observer' })
await observer.connect()
after(() => observer.end())

/** When each of the service's connections last looked a token up, as PostgreSQL itself saw it. */
async function activity(): Promise<string> {
  const { rows } = await observer.query(
    `select string_agg(concat(pid, ' ', backend_start, ' ', query_start, ' ', state_change), '; ' order by pid) as seen
     from pg_stat_activity where application_name = 'gatehouse' and datname = current_database()
       and query like '%token_hash%'`,
  )
  return rows[0].seen
}

/** Once everything that starting triggers has finished. */
async function restingActivity(): Promise<string> {
  let last = ''
  const isAtRest = (now: string) => {
    const rests = now === last
    last = now
    return rests
  }
  return poll(activity, isAtRest, { everyMs: 150 })
}

const mistyped = (token: string, at: number) =>
  token.slice(0, at) + (token[at] === 'a' ? 'b' : 'a') + token.slice(at + 1)

test('a malformed token is refused without a database query', async () => {
  const token = newToken()
  const cannotBe = [
    ...Array.from({ length: token.length }, (_, at) => mistyped(token, at)),
    token.slice(0, -1),
    `${token}0`,
    token.toLowerCase(),
    `gatehouse_${randomBytes(24).toString('hex')}x`,
    'gatehouse_',
    'x',
  ]
  await admin('GET', '/caller')
  // That this key was used is written once, within a second or so.
  await poll(
    () => admin('GET', '/api_keys'),
    ({ body }) => body.keys[0].last_used_at !== null,
  )
  const before = await restingActivity()
  assert.match(before, /^\d+ 20/)
  for (const text of cannotBe) assert.equal((await plane.clientFor(text)('GET', '/caller')).status, 401, text)
  assert.equal((await admin('GET', '/caller', undefined, { headers: { authorization: undefined } })).status, 401)
  assert.equal(await activity(), before, 'the database was asked')
  // The evidence is not blind: a token with a right checksum that was never issued does reach the database.
  assert.equal((await plane.clientFor(token)('GET', '/caller')).status, 401)
  assert.notEqual(await activity(), before)
})

test('tokens are 256 random bits with a prefix and a checksum, and never the same twice', () => {
  const tokens = new Set(Array.from({ length: 10_000 }, newToken))
  assert.equal(tokens.size, 10_000)
  for (const token of tokens) {
    assert.match(token, /^gatehouse_[0-9A-Za-z]{49}$/)
    assert.ok(isWellFormedToken(token))
  }
})

test('only the SHA-256 of a token is stored, and audit events contain neither', async () => {
  const { body: key } = await admin('POST', '/api_keys', { description: 'kept' })
  const { rows } = await observer.query('select token_hash, k::text as whole from api_keys k where id = $1', [
    toUuid(key.id),
  ])
  assert.deepEqual(rows[0].token_hash, hash('sha256', key.token, 'buffer'))
  assert.ok(!rows[0].whole.includes(key.token.slice(10, 53)))
  const { body } = await admin('GET', `/audit_events?resource_id=${key.id}`)
  assert.equal(body.audit_events.length, 1)
  assert.equal(body.audit_events[0].operation, 'api_keys.create')
  const { last_used_at: _, last_used_ip: __, previous_token: ___, ...stableFields } = key
  assert.deepEqual(body.audit_events[0].after, { ...stableFields, token: null })
  assert.ok(!JSON.stringify(body).includes(key.token))
})

test('the token is shown once: no read, list, change or error repeats it', async () => {
  const { body: key } = await admin('POST', '/api_keys', {})
  const self = plane.clientFor(key.token)
  for (const answer of [
    await self('GET', key.uri),
    await self('GET', '/api_keys'),
    await self('PATCH', key.uri, { description: 'x' }),
    await self('GET', '/caller'),
    await self('GET', `/api_keys/${key.token}`),
    await self('POST', '/api_keys', { owner_id: key.token }),
    await self('GET', '/caller', undefined, { headers: { authorization: `Basic ${key.token}` } }),
  ])
    assert.ok(!answer.text.includes(key.token), answer.text)
})

test('every request logs one line with its operation id and no secret, wherever the client put it', async () => {
  const { body: key } = await admin('POST', '/api_keys', {})
  const [secret, self] = [key.token, plane.clientFor(key.token)]
  const answers = [
    await self('GET', '/caller'),
    await self('GET', `/api_keys/${secret}`),
    await self('GET', `/api_keys?token=${secret}`),
    await self('GET', `/api_keys?${secret}=1`),
    await self('GET', `/nowhere/${secret}`),
    await self('PUT', `/api_keys/${secret}`, {}),
    await self('GET', `/api_keys/%zz${secret}`),
    await self('GET', `/${secret}/${secret}`, undefined, { headers: { authorization: undefined } }),
    await self('POST', '/api_keys', { token: secret }),
    await self('POST', '/api_keys', undefined, { rawBody: `{"description":"${secret}` }),
    await self('GET', '/caller', undefined, { headers: { authorization: `Token ${secret}` } }),
    await self('GET', '/caller', undefined, { headers: { 'user-agent': secret, referer: `https://x/${secret}` } }),
    await self('DELETE', key.uri),
    await self('GET', '/caller'),
  ]
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 404, 400, 400, 404, 405, 400, 404, 400, 400, 401, 200, 204, 401],
  )
  const linesOf = (id: string | null) => server.log.filter(({ operation_id }) => operation_id === id)
  const ids = answers.map(({ headers }) => headers.get('operation-id'))
  await poll(() => ids.every((id) => linesOf(id).length))
  assert.deepEqual(
    ids.map((id) => linesOf(id).map(({ status }) => status)),
    answers.map(({ status }) => [status]),
  )
  const log = server.log.map((line) => JSON.stringify(line)).join('\n')
  for (const token of [secret, admin.token]) assert.ok(!log.includes(token.slice(10, 53)), 'a secret is in the log')
})
