// An installation from before accounts were kept apart, with the overlaps of rows 1 and 5 in its database.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import pg from 'pg'
import { recoverAccount } from '../../src/commands/accounts/recover.ts'
import { readMigrations } from '../../src/db/migrate.ts'
import { newUuid, toId, type Uuid } from '../../src/kernel/ids.ts'
import { gatehouse } from '../harness/command.ts'
import { newDatabase, startControlPlane } from '../harness/control_plane.ts'

const databaseUrl = await newDatabase('template0')
const client = new pg.Client({ connectionString: databaseUrl })
await client.connect()
after(() => client.end())

async function applyUpTo(last: string): Promise<void> {
  await client.query(
    `create table migrations (name text primary key, checksum text not null, applied_at timestamptz(3) not null default now())`,
  )
  for (const { name, text, checksum } of (await readMigrations()).filter((one) => one.name < last)) {
    await client.query(text)
    await client.query('insert into migrations (name, checksum) values ($1, $2)', [name, checksum])
  }
}

async function insertAccount(name: string): Promise<Uuid> {
  const account = newUuid()
  await client.query('insert into accounts (id, name) values ($1, $2)', [account, name])
  await client.query(
    `insert into principals (account_id, id, kind, name, email, role) values ($1, $2, 'user', 'Ada', 'ada@example.com', 'admin')`,
    [account, newUuid()],
  )
  return account
}

let minutes = 0
/** Each is younger than those before it. Resolves to its id. */
async function insertEdge(account: Uuid, ...hostports: string[]): Promise<string> {
  const [id, kind] = [newUuid(), hostports[0]?.endsWith(':443') ? 'https' : 'tcp']
  const age = `2026-01-01T00:${String(minutes++).padStart(2, '0')}:00Z`
  await client.query('insert into edges (account_id, id, kind, created_at) values ($1, $2, $3, $4)', [
    account,
    id,
    kind,
    age,
  ])
  for (const [position, hostport] of hostports.entries())
    await client.query('insert into hostports (hostport, account_id, edge_id, position) values ($1, $2, $3, $4)', [
      hostport,
      account,
      id,
      position,
    ])
  return toId(kind === 'tcp' ? 'edgtcp' : 'edghts', id)
}

test('migrate keeps the older of two overlapping claims in force, reports both, and shows the other as refused', async () => {
  await applyUpTo('0007')
  const [alice, mallory, carol] = [
    await insertAccount('alice'),
    await insertAccount('mallory'),
    await insertAccount('carol'),
  ]
  const nothing = await insertEdge(mallory, '*.com:443', '*.co.uk:443')
  const shop = await insertEdge(alice, 'shop.com:443', 'shop.co.uk:443', '*.corp.example:443')
  const tcp = await insertEdge(alice, 'tcp.example:20021', 'second.example:20021')
  const thief = await insertEdge(mallory, '127.0.0.1:20021', 'tcp.mallory.example:20022')
  const admin = await insertEdge(mallory, 'admin.corp.example:443', 'mallory.example:443')
  // Mallory's wildcard is refused because of Carol's older name, and so does not refuse Alice's younger one.
  const carols = await insertEdge(carol, 'c.shared.example:443')
  const wild = await insertEdge(mallory, '*.shared.example:443')
  const alices = await insertEdge(alice, 'a.shared.example:443', 'shared.example:443')
  // One account's own are no overlap.
  const own = await insertEdge(carol, '*.own.example:443', 'a.own.example:443', 'own.example:443')

  const { code, stdout, stderr } = await gatehouse(['migrate'], { GATEHOUSE_DATABASE_URL: databaseUrl })
  assert.deepEqual([code, stderr], [0, ''], stdout)
  const [a, m, c] = [toId('ac', alice), toId('ac', mallory), toId('ac', carol)]
  const reported = stdout.split('\n').filter((line) => line.startsWith('refused '))
  assert.deepEqual(reported.sort(), [
    `refused *.co.uk:443 of ${nothing} (${m}), public_suffix: it is a wildcard directly under a public suffix`,
    `refused *.com:443 of ${nothing} (${m}), public_suffix: it is a wildcard directly under a public suffix`,
    `refused *.shared.example:443 of ${wild} (${m}), overlap: it overlaps c.shared.example:443 of the older ${carols} (${c}), which stays in force`,
    `refused 127.0.0.1:20021 of ${thief} (${m}), overlap: it overlaps ${
      reported.find((line) => line.includes('127.0.0.1'))?.match(/(tcp|second)\.example:20021/)?.[0]
    } of the older ${tcp} (${a}), which stays in force`,
    `refused admin.corp.example:443 of ${admin} (${m}), overlap: it overlaps *.corp.example:443 of the older ${shop} (${a}), which stays in force`,
  ])

  const plane = await startControlPlane({ after }, { databaseUrl })
  const clientOf = async (name: string) => {
    const recovered = await recoverAccount(plane.db, name, 'https://api.gatehouse.test')
    return plane.clientFor(recovered?.token ?? assert.fail())
  }
  const pathOf = (id: string) => `/edges/${id.startsWith('edgtcp') ? 'tcp' : 'https'}/${id}`
  for (const [name, id, inForce, refused] of [
    ['mallory', nothing, [], ['*.com:443', '*.co.uk:443']],
    ['alice', shop, ['shop.com:443', 'shop.co.uk:443', '*.corp.example:443'], undefined],
    ['alice', tcp, ['tcp.example:20021', 'second.example:20021'], undefined],
    ['mallory', thief, ['tcp.mallory.example:20022'], ['127.0.0.1:20021']],
    ['mallory', admin, ['mallory.example:443'], ['admin.corp.example:443']],
    ['carol', carols, ['c.shared.example:443'], undefined],
    ['mallory', wild, [], ['*.shared.example:443']],
    ['alice', alices, ['a.shared.example:443', 'shared.example:443'], undefined],
    ['carol', own, ['*.own.example:443', 'a.own.example:443', 'own.example:443'], undefined],
  ] as const) {
    const { body } = await (await clientOf(name))('GET', pathOf(id))
    assert.deepEqual(body.hostports, inForce, id)
    assert.deepEqual(
      body.refused_hostports?.map(({ hostport }: { hostport: string }) => hostport),
      refused,
      id,
    )
  }

  const as = await clientOf('mallory')
  const { body: audit } = await as('GET', `/audit_events?resource_id=${thief}`)
  assert.deepEqual(
    audit.audit_events.map(({ operation, before, after: now }: Record<string, unknown>) => [operation, before, now]),
    [
      [
        'server.migrate',
        { hostports: ['127.0.0.1:20021', 'tcp.mallory.example:20022'] },
        {
          hostports: ['tcp.mallory.example:20022'],
          refused_hostports: [{ hostport: '127.0.0.1:20021', reason: 'overlap' }],
        },
      ],
    ],
  )
  // What nodes have of these edges is sent again, without the refused hostports.
  const { rows } = await client.query('select key from outbox order by key')
  assert.deepEqual(
    rows.map(({ key }) => key),
    [`https.${admin}`, `https.${nothing}`, `https.${wild}`, `tcp.${thief}`].sort(),
  )
  const metrics = await (await fetch(`${plane.processes[0]?.origin}/metrics`)).text()
  assert.match(metrics, /^gatehouse_refused_hostports 5$/m)

  const alicesClient = await clientOf('alice')
  assert.equal((await alicesClient('POST', '/edges/https', { hostports: ['admin.corp.example:443'] })).status, 201)
  const dropped = await as('PATCH', pathOf(thief), { hostports: ['tcp.mallory.example:20022'] })
  assert.deepEqual([dropped.status, dropped.body.refused_hostports], [200, undefined])
})
