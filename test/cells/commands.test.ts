// What operators do with cells, also two of them at once.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { CellsFault, createCell, deleteCell } from '../../src/commands/cells/cells.ts'
import { place } from '../../src/commands/cells/placement.ts'
import { many, one, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { latestFleetEvents } from '../../src/fleet/node_store.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { cellsOf, findCell } from '../../src/operations/placement.ts'
import { gatehouse } from '../harness/command.ts'
import { type Account, startControlPlane } from '../harness/control_plane.ts'
import { make, newTcpEdge } from '../harness/fixtures.ts'
import { sized } from '../harness/thorough.ts'

const plane = await startControlPlane({ after }, { processes: 2 })
const { db } = plane
const env = { GATEHOUSE_DATABASE_URL: plane.databaseUrl }
const cells = (...args: string[]) => gatehouse(['cells', ...args], env)
const printed = async (...args: string[]) => {
  const { code, stdout, stderr } = await cells(...args)
  assert.equal(code, 0, stderr)
  return stdout
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
}
const refused = async (expected: RegExp, ...args: string[]) => {
  const { code, stdout, stderr } = await cells(...args)
  assert.deepEqual([code, stdout], [1, ''], stderr)
  assert.match(stderr, expected)
}
let count = 0
const newCell = async (isDefault = false) => {
  const name = `cell-${++count}`
  await createCell(db, { name, isDefault, confirmed: true })
  return name
}
const idOf = ({ accountId }: Account) => toUuid(accountId as `ac_${string}`)
const placing = (account: Account, names: string[]) => place(db, { id: idOf(account), name: 'it' }, names, false)
const servedBy = async (account: Account) => (await cellsOf(db, idOf(account))).map(({ name }) => name)
const placementEvents = async (account: Account) => {
  const { body } = await account('GET', '/audit_events')
  const events = body.audit_events as { operation: string; before: object; after: object }[]
  return events.filter(({ operation }) => operation.startsWith('server.cells.')).reverse()
}

test('a new cell has what its publisher starts from, and serves no account', async () => {
  const account = await plane.newAccount()
  const [created] = await printed('create', 'first')
  assert.deepEqual(created, { name: 'first', default: false, accounts: 0 })
  const listed = await printed('list')
  assert.deepEqual(listed.at(-1), {
    ...{ name: 'first', default: false, nodes: 0, accounts: 0, placed_accounts: 0 },
    publisher: null,
    ...{ soak_seconds: 30, halt_addresses: 50, halt_addresses_percent: 20, halt_errors_percent: 20 },
  })
  assert.equal(listed[0].name, 'default')
  const started = await one<{ cursor: number; epoch: number; settled: number }>(
    db,
    sql`
    select s.cursor, k.epoch, settled_generation() as settled
    from cells c join publisher_state s on s.cell_id = c.id join delivery_key k on k.cell_id = c.id where c.name = 'first'`,
  )
  assert.equal(started.cursor, started.settled)
  assert.ok(started.epoch > 0)
  assert.deepEqual(await servedBy(account), ['default'])
  await refused(/there is a cell first already/, 'create', 'first')
  assert.equal((await cells('create', 'No_Such')).code, 2)
  const events = await latestFleetEvents(db, 1)
  assert.deepEqual([events[0]?.operation, events[0]?.detail], ['cell_created', 'first'])
})

test('what halts a rollout is set for each cell, also to off, and what it was is kept', async () => {
  const name = await newCell()
  const [set] = await printed('set', name, '--soak-seconds', '60', '--halt-addresses', 'off')
  const thresholds = { halt_addresses: 'off', halt_addresses_percent: 20, halt_errors_percent: 20 }
  assert.deepEqual(set, { name, soak_seconds: 60, ...thresholds })
  const [event] = await latestFleetEvents(db, 1)
  assert.deepEqual(
    [event?.operation, event?.detail],
    ['cell_changed', `${name}: soak_seconds 30 to 60, halt_addresses 50 to off`],
  )
  const off = await cells('set', name, '--halt-addresses-percent', 'off')
  assert.match(off.stderr, /refuses addresses which were let in is not halted/)
  assert.equal((await printed('list')).at(-1).halt_addresses_percent, 'off')
  await refused(/there is no cell nowhere/, 'set', 'nowhere', '--soak-seconds', '1')
  for (const wrong of [
    [],
    ['--soak-seconds', 'off'],
    ['--soak-seconds', '86401'],
    ['--halt-errors-percent', '0'],
    ['--halt-errors-percent', '101'],
    ['--halt-addresses', '1.5'],
  ])
    assert.equal((await cells('set', name, ...wrong)).code, 2, wrong.join(' '))
})

test('an account is placed in exactly the cells that the operator names, and both sides see it', async () => {
  const [eu, us] = [await newCell(), await newCell()]
  const account = await plane.newAccount()
  const expected = { account_id: account.accountId, cells: [eu, us], added: [eu, us], removed: ['default'] }
  const [dry] = await printed('place', account.accountId, us, eu, '--dry-run')
  assert.deepEqual({ ...dry, name: '' }, { ...expected, name: '' })
  assert.deepEqual(await servedBy(account), ['default'], 'a dry run changes nothing')
  assert.deepEqual(await placementEvents(account), [])

  const done = await cells('place', account.accountId, us, eu)
  assert.match(
    done.stderr,
    new RegExp(`are sent to the nodes of ${eu}, ${us}\nThey are removed from the nodes of default`),
  )
  assert.deepEqual({ ...JSON.parse(done.stdout), name: '' }, { ...expected, name: '' })
  assert.deepEqual(await servedBy(account), [eu, us])
  const [shown] = await printed('show', account.accountId)
  assert.deepEqual([shown.cells, shown.placed, shown.edges], [[eu, us], true, []])
  const [event] = await placementEvents(account)
  assert.deepEqual([event?.before, event?.after], [{ cells: ['default'] }, { cells: [eu, us] }])
  const [fleet] = await latestFleetEvents(db, 1)
  assert.deepEqual([fleet?.operation, fleet?.detail], ['account_placed', `${account.accountId} in ${eu}, ${us}`])

  const [back] = await printed('place', account.accountId, '--default')
  assert.deepEqual([back.cells, back.added, back.removed], [['default'], ['default'], [eu, us]])
  await refused(/there is no cell nowhere\. There are default, /, 'place', account.accountId, eu, 'nowhere')
  await refused(/there is no account "no-such-account"/, 'place', 'no-such-account', eu)
  assert.equal((await cells('place', account.accountId)).code, 2)
  assert.equal((await cells('place', account.accountId, eu, '--default')).code, 2)
})

test('an account stays in a cell as long as one of its edges names it', async () => {
  const [eu, us] = [await newCell(), await newCell()]
  const account = await plane.newAccount()
  await placing(account, [eu, us])
  const edge = await newTcpEdge(account, { cells: [eu] })
  await refused(new RegExp(`1 of its edges names a cell .*: ${edge.id} \\(${eu}\\)`), 'place', account.accountId, us)
  await refused(new RegExp(edge.id), 'place', account.accountId, us, '--dry-run')
  assert.deepEqual(await servedBy(account), [eu, us])
  const [shown] = await printed('show', account.accountId)
  assert.deepEqual(shown.edges, [{ id: edge.id, cells: [eu] }])
  await account('PATCH', edge.uri, { cells: null })
  await printed('place', account.accountId, us)
  assert.deepEqual(await servedBy(account), [us])
})

test('a cell that is in use cannot be deleted, and neither can the default one', async () => {
  await refused(/default is the cell of every installation/, 'delete', 'default')
  await refused(/there is no cell nowhere/, 'delete', 'nowhere')
  const name = await newCell()
  const { id = 0 } = (await findCell(db, name)) ?? {}
  const account = await plane.newAccount()

  await placing(account, [name])
  await refused(/in use by the account /, 'delete', name)
  await placing(account, [])

  await run(
    db,
    sql`
    insert into fleet_nodes (nats_account, name, nats_user, node_key, cell_id) values (${name}, ${name}, 'U', 'key', ${id})`,
  )
  await refused(new RegExp(`in use by the node ${name}`), 'delete', name)
  await run(db, sql`update fleet_nodes set revoked_at = now() where name = ${name}`)
  await printed('delete', name)
  assert.equal(await findCell(db, name), undefined)
  const kept = await many(db, sql`select from fleet_nodes where name = ${name} and revoked_at is not null`)
  assert.equal(kept.length, 1, 'NATS still has to know that it was revoked')
  const left = await many(db, sql`select from publisher_state where cell_id = ${id}`)
  assert.equal(left.length, 0)
  assert.equal((await latestFleetEvents(db, 1))[0]?.operation, 'cell_deleted')
})

test('a default cell serves the accounts that are placed nowhere, once the operator has confirmed it', async () => {
  const [unplaced, placed] = [await plane.newAccount(), await plane.newAccount()]
  await placing(placed, ['default'])
  await refused(/would serve \d+ accounts that are placed nowhere.*Add --yes/, 'create', 'wide', '--default')
  assert.equal(await findCell(db, 'wide'), undefined)
  const [created] = await printed('create', 'wide', '--default', '--yes')
  assert.ok(created.accounts >= 1)
  assert.deepEqual([await servedBy(unplaced), await servedBy(placed)], [['default', 'wide'], ['default']])
  assert.deepEqual(
    (await placementEvents(unplaced)).map(({ operation }) => operation),
    ['server.cells.create'],
  )
  assert.deepEqual(
    (await placementEvents(placed)).map(({ operation }) => operation),
    [],
  )

  const edge = await newTcpEdge(unplaced, { cells: ['wide'] })
  await refused(/in use by an edge of the account /, 'delete', 'wide')
  await unplaced('DELETE', edge.uri)
  await printed('delete', 'wide')
  assert.deepEqual(await servedBy(unplaced), ['default'])
  assert.deepEqual((await placementEvents(unplaced)).at(-1)?.after, { cells: ['default'] })
})

/** Whether it was refused, for the operator. */
const isRefused = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => false,
    (error: unknown) => {
      assert.ok(error instanceof CellsFault, String(error))
      return true
    },
  )

const rounds = sized(15, 150)

test('when an account is moved during a change, no edge names a cell that does not serve it', async () => {
  const outcomes = new Set<string>()
  const eu = await newCell()
  const account = await plane.newAccount()
  const kept = await make(account, '/edges/https')
  for (let round = 0; round < rounds; round++) {
    await placing(account, ['default', eu])
    const [created, patched, isKept] = await Promise.all([
      account('POST', '/edges/tcp', { cells: [eu] }, { process: 0 }),
      account('PATCH', kept.uri, { cells: [eu] }, { process: 1 }),
      isRefused(placing(account, ['default'])),
    ])
    const named = [created, patched].filter(({ status }) => status < 300)
    for (const { status, text } of [created, patched]) assert.ok([200, 201, 400].includes(status), text)
    assert.equal(named.length > 0, isKept, JSON.stringify([created.status, patched.status, isKept]))
    assert.deepEqual(await servedBy(account), isKept ? ['default', eu] : ['default'])
    outcomes.add(`${isKept}`)
    if (created.status === 201) await account('DELETE', created.body.uri)
    await account('PATCH', kept.uri, { cells: null })
  }
  // Not asserted: which of them is first is up to the machine.
  console.log(`kept or moved: ${[...outcomes]}`)
})

test('an edge that names a default cell and the deletion of that cell do not both succeed', async () => {
  const account = await plane.newAccount()
  for (let round = 0; round < rounds; round++) {
    const name = await newCell(true)
    const [created, isKept] = await Promise.all([
      account('POST', '/edges/tcp', { cells: [name] }),
      isRefused(deleteCell(db, name)),
    ])
    assert.equal(created.status, isKept ? 201 : 400, created.text)
    if (created.status === 201) await account('DELETE', created.body.uri)
    if (isKept) await deleteCell(db, name)
  }
})

test('an account that leaves its placement while a default cell is created learns of every cell that serves it', async () => {
  const account = await plane.newAccount()
  for (let round = 0; round < rounds; round++) {
    await placing(account, ['default'])
    const [name] = await Promise.all([newCell(true), placing(account, [])])
    assert.deepEqual((await placementEvents(account)).at(-1)?.after, { cells: ['default', name] })
    await deleteCell(db, name)
  }
})

test('two operators who place an account at the same time leave one of the two placements and a true history', async () => {
  const [eu, us] = [await newCell(), await newCell()]
  const account = await plane.newAccount()
  for (let round = 0; round < rounds; round++)
    await Promise.all([placing(account, [eu]), placing(account, [us]), placing(account, [])])
  const history = (await placementEvents(account)) as unknown as {
    before: { cells: string[] }
    after: { cells: string[] }
  }[]
  let cells = ['default']
  for (const { before, after: then } of history) {
    assert.deepEqual(before.cells, cells)
    cells = then.cells
  }
  assert.deepEqual(await servedBy(account), cells)
  // The outbox must have one row for each cell that the account entered or left.
  const moves = await many(db, sql`select from outbox where account_id = ${idOf(account)} and key like 'placement.%'`)
  const moved = history.map(({ before, after: then }) => new Set([...before.cells, ...then.cells]).size)
  assert.equal(
    moves.length,
    moved.reduce((sum, each) => sum + each, 0),
  )
})

test('an account with many edges leaves a cell only when the operator says so', async () => {
  const account = await plane.newAccount()
  const [us, eu] = [await newCell(), await newCell()]
  await printed('place', account.accountId, us)
  for (let index = 0; index < 21; index++) await make(account, '/edges/tcp')
  const needed = /all 21 edges, routes and backends of .* would be removed from the nodes of .*\. Add --yes/
  await refused(needed, 'place', account.accountId, eu)
  assert.match((await cells('place', account.accountId, eu, '--dry-run')).stderr, /it needs --yes/)
  assert.deepEqual((await printed('place', account.accountId, us, eu))[0].removed, [], 'it only joins another')
  assert.deepEqual((await printed('place', account.accountId, eu, '--yes'))[0].removed, [us])
})
