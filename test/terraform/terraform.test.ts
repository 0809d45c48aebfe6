// Every resource with the real Terraform. test/terraform/protocol.test.ts has the same without it.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { resources } from '../../src/terraform/catalog.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { type Config, configurationsOf, pathOf } from './resources.ts'
import { isTerraformMissing, newWorkspace } from './workspace.ts'

const plane = await sharedControlPlane({ after })
const types = resources()
const origin = plane.processes[0]?.origin ?? ''

type Row = Record<string, unknown>
const asJson = (configs: Record<string, Config>, more: object = {}): string =>
  JSON.stringify({
    resource: Object.fromEntries(Object.entries(configs).map(([type, config]) => [type, { it: config }])),
    ...more,
  })
const typesWith = (changes: { type: string; change: { actions: string[] } }[], action: string) =>
  changes.filter(({ change }) => change.actions.join() === action).map(({ type }) => type)

test('terraform creates, changes, finds changed, imports and deletes every resource, and no second plan has changes', {
  skip: isTerraformMissing,
}, async (t) => {
  const account = await plane.newAccount()
  const workspace = await newWorkspace(t, { origin, token: account.token })
  const both = await Promise.all(
    types.map(async (type) => [type.typeName, await configurationsOf(plane, account, type)] as const),
  )
  const least = Object.fromEntries(both.map(([type, { least }]) => [type, least]))
  const full = Object.fromEntries(both.map(([type, { full }]) => [type, full]))
  const changeable = types.filter(({ update }) => update).map(({ typeName }) => typeName)

  await workspace.write('main.tf.json', asJson(least))
  await workspace.ok('init')
  const first = await workspace.planned()
  assert.equal(typesWith(first.changes, 'create').length, types.length)
  assert.ok(!`${first.output}${JSON.stringify(first.changes)}`.includes('PRIVATE KEY'), 'a private key is in the plan')
  const keyChange = first.changes.find(({ type }) => type === 'gatehouse_api_key')?.change
  assert.equal(keyChange?.after_sensitive.token, true)
  await workspace.ok('apply', 'plan')
  assert.equal(await workspace.isChange(), false)

  await workspace.write('main.tf.json', asJson(full))
  const second = await workspace.planned()
  assert.deepEqual(typesWith(second.changes, 'update').sort(), changeable.toSorted())
  const token = await tokenIn(workspace.folder)
  assert.match(token, /^gatehouse_/)
  assert.ok(!second.output.includes(token), 'the token is in the plan that people read')
  await workspace.ok('apply', 'plan')
  assert.equal(await workspace.isChange(), false)

  const rows = await rowsIn(workspace.folder)
  const imports = await newWorkspace(t, { origin, token: account.token })
  const blocks = types.map(({ typeName, key }) => ({
    to: `${typeName}.it`,
    id: key.map((part) => rows[typeName]?.[part]).join('/'),
  }))
  await imports.write('main.tf.json', asJson(full, { import: blocks }))
  await imports.ok('init')
  const { changes } = await imports.planned()
  assert.equal(typesWith(changes, 'no-op').length, types.length, JSON.stringify(changes, null, 1).slice(0, 5_000))
  assert.ok(changes.every(({ change }) => change.importing))

  // By hand: one thing is deleted, and all others are changed.
  for (const type of types) {
    const path = pathOf(type, rows[type.typeName] ?? assert.fail())
    const field = type.update?.fields.has('description') ? 'description' : 'name'
    if (type.typeName === 'gatehouse_identity') await account('DELETE', path)
    else await account('PATCH', path, { [field]: 'changed by hand' })
  }
  const drift = await workspace.planned()
  assert.deepEqual(typesWith(drift.changes, 'update').sort(), changeable.toSorted())
  assert.deepEqual(typesWith(drift.changes, 'create'), ['gatehouse_identity'])

  await workspace.ok('destroy', '-auto-approve')
  for (const type of types)
    assert.equal((await account('GET', pathOf(type, rows[type.typeName] ?? assert.fail()))).status, 404)
})

async function rowsIn(folder: string): Promise<Record<string, Row>> {
  const { resources: stored } = JSON.parse(await readFile(join(folder, 'terraform.tfstate'), 'utf8'))
  return Object.fromEntries(
    stored.map(({ type, instances }: { type: string; instances: { attributes: Row }[] }) => [
      type,
      instances[0]?.attributes,
    ]),
  )
}

async function tokenIn(folder: string): Promise<string> {
  const state = await readFile(join(folder, 'terraform.tfstate'), 'utf8')
  assert.ok(!state.includes('PRIVATE KEY'), 'a private key is in the state')
  return String((await rowsIn(folder)).gatehouse_api_key?.token)
}
