// What the API is compared with: a Fastify server that runs the same statements on PostgreSQL and checks nothing.
//   GATEHOUSE_DATABASE_URL=… node bench/bare.ts sequential|joined|write|list
import { hash } from 'node:crypto'
import fastify from 'fastify'
import pg from 'pg'
import { hashToken } from '../src/identity/token.ts'
import { type Id, newId, newUuid, toUuid } from '../src/kernel/ids.ts'

const connectionString = process.env.GATEHOUSE_DATABASE_URL
const pool = new pg.Pool({ connectionString, max: 10, options: '-c timezone=UTC' })
const app = fastify()

const callerColumns = `k.account_id, k.id as key_id, k.expires_at, k.rotated_at, k.scopes, k.allowed_cidrs, p.id as owner_id,
  p.kind, p.role, a.policy_revision, a.requests_per_minute,
  exists (select from ip_restrictions r where r.account_id = a.id and r.type = 'api') as restricted,
  k.expires_at is null or k.expires_at > statement_timestamp() as live`
const callerTables = `api_keys k join principals p on p.account_id = k.account_id and p.id = k.owner_id
  join accounts a on a.id = k.account_id`
const caller = `select ${callerColumns} from ${callerTables} where k.token_hash = $1 and p.active`
const keyColumns = `o.id, o.owner_id, o.owner_kind, o.created_by_key_id, o.description, o.metadata, o.created_at, o.expires_at,
  o.scopes, o.allowed_cidrs, o.rotated_at, u.last_used_at, host(u.last_used_ip) as last_used_ip,
  t.expires_at as previous_expires_at`
const keyTables = `left join api_key_uses u on u.account_id = o.account_id and u.api_key_id = o.id
  left join api_key_previous_tokens t on t.account_id = o.account_id and t.api_key_id = o.id and t.expires_at > now()`
const key = `select ${keyColumns} from api_keys o ${keyTables} where o.account_id = $1 and o.id = $2`
const page = `select ${keyColumns} from api_keys o ${keyTables} where o.account_id = $1 order by o.id desc limit 101`

type Headers = { authorization?: string }
const tokenOf = ({ authorization = '' }: Headers): Buffer => hashToken(authorization.slice('Bearer '.length))
const idOf = (params: unknown): string => toUuid((params as { id: Id<'ak'> }).id)

const ways: Record<string, () => void> = {
  /** Two selects in sequence, each on whichever connection of the pool is free. */
  sequential() {
    app.get('/api_keys/:id', async ({ headers, params }) => {
      const found = await pool.query({ name: 'caller', text: caller, values: [tokenOf(headers)] })
      const { rows } = await pool.query({ name: 'key', text: key, values: [found.rows[0].account_id, idOf(params)] })
      return rows[0]
    })
  },
  /** One select for both, over three connections that requests share without waiting for each other's answers. */
  joined() {
    const clients = Array.from({ length: 3 }, () => {
      const client = new pg.Client({ connectionString, pipeline: true } as pg.ClientConfig)
      void client.connect()
      return client
    })
    let turn = 0
    const text = `select ${callerColumns.replaceAll(', ', ', ')}, ${keyColumns.replace(/\bo\.(\w+)/g, 'o.$1 as o_$1')}
      from ${callerTables} join api_keys o on o.account_id = k.account_id and o.id = $2 ${keyTables}
      where k.token_hash = $1 and p.active`
    app.get('/api_keys/:id', async ({ headers, params }) => {
      const client = clients[turn++ % clients.length] as pg.Client
      return (await client.query({ name: 'both', text, values: [tokenOf(headers), idOf(params)] })).rows[0]
    })
  },
  /** The caller, begin, insert, audit, commit. */
  write() {
    app.post('/api_keys', async ({ headers }, reply) => {
      const { rows } = await pool.query({ name: 'caller', text: caller, values: [tokenOf(headers)] })
      const { account_id, owner_id } = rows[0]
      const id = newUuid()
      const client = await pool.connect()
      try {
        await client.query('begin')
        const tokenHash = Buffer.from(hash('sha256', id, 'hex'), 'hex')
        const made = await client.query({
          name: 'insert',
          text: insertKey,
          values: [account_id, id, owner_id, tokenHash],
        })
        const values = [account_id, newUuid(), newId('op'), `usr_${owner_id}`, id, JSON.stringify(made.rows[0])]
        await client.query({ name: 'audit', text: insertAudit, values })
        await client.query('commit')
        return reply.code(201).send(made.rows[0])
      } finally {
        client.release()
      }
    })
  },
  list() {
    app.get('/api_keys', async ({ headers }) => {
      const found = await pool.query({ name: 'caller', text: caller, values: [tokenOf(headers)] })
      return (await pool.query({ name: 'page', text: page, values: [found.rows[0].account_id] })).rows
    })
  },
}

const insertKey = `with owner as (select id, kind from principals where account_id = $1 and id = $3 and active for key share)
  insert into api_keys as k (account_id, id, owner_id, owner_kind, token_hash, scopes)
  select $1, $2, owner.id, owner.kind, $4, '{*}' from owner returning *`
const insertAudit = `insert into audit_events (account_id, id, operation, operation_id, owner_id, resource_id, after)
  values ($1, $2, 'api_keys.create', $3, $4, $5, $6)`

ways[process.argv[2] ?? '']?.()
await app.listen({ host: '127.0.0.1', port: 0 })
console.log(JSON.stringify({ msg: 'listening', address: app.server.address() }))
process.on('SIGTERM', () => process.exit(0))
