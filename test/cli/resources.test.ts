// One resource in the hands of a person: edited in an editor, and shown with what it uses.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { exits } from '../../src/cli/exits.ts'
import { make } from '../harness/fixtures.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { testRun } from '../harness/test_run.ts'
import { cliFor } from './harness.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const cli = cliFor(plane, admin)

test('edit sends the fields that were changed in the editor, and clears those that were removed', async () => {
  const policy = await make(admin, '/ip_policies', { description: 'office', metadata: 'yes' })
  const edit = (EDITOR: string, args = ['ip-policies', 'edit', policy.id]) => cli(args, { env: { VISUAL: '', EDITOR } })
  const now = async () => (await admin('GET', `/ip_policies/${policy.id}`)).body
  const unchanged = await edit('true')
  assert.deepEqual([unchanged.code, unchanged.stderr], [0, 'Nothing was changed.\n'])
  const changed = await edit("sed -i 's/office/branch/'", ['ip-policies', 'edit', 'office'])
  assert.equal(changed.stdout, `changed ip_policies/${policy.id}: description\n`, changed.stderr)
  assert.deepEqual([(await now()).description, (await now()).metadata], ['branch', 'yes'])
  await edit("sed -i '/^metadata/d'")
  assert.equal((await now()).metadata, undefined)
  assert.equal((await edit('false')).code, exits.usage.code)
  const refused = await edit(`sed -i 's/branch/${'x'.repeat(300)}/'`)
  assert.equal(refused.code, exits.refused.code, refused.stderr)
  const [, kept = ''] = /Your text is kept in (.*)/.exec(refused.stderr) ?? []
  assert.ok(existsSync(kept) && readFileSync(kept, 'utf8').includes('xxx'), refused.stderr)
})

test('edit does not overwrite what someone else has changed while the editor was open', async () => {
  const backend = await make(admin, '/backends/static', { address: 'a.internal:1' })
  const editor = join(testRun.folder, 'editor.mjs')
  const url = `${plane.processes[0]?.origin}/backends/static/${backend.id}`
  const headers = { authorization: `Bearer ${admin.token}`, 'service-version': '2', 'content-type': 'application/json' }
  const request = { method: 'PATCH', headers, body: JSON.stringify({ address: 'b.internal:1' }) }
  await writeFile(
    editor,
    `import { appendFileSync } from 'node:fs'
const { status } = await fetch(${JSON.stringify(url)}, ${JSON.stringify(request)})
if (status !== 200) throw new Error(String(status))
appendFileSync(process.argv[2], 'description: mine\\n')`,
  )
  const args = ['backends', 'static', 'edit', backend.id]
  const { code, stderr } = await cli(args, { env: { VISUAL: `${process.execPath} ${editor}` } })
  assert.deepEqual([code, /ERR_PRECONDITION_FAILED/.test(stderr)], [exits.refused.code, true], stderr)
  const { address, description } = (await admin('GET', `/backends/static/${backend.id}`)).body
  assert.deepEqual([address, description], ['b.internal:1', undefined])
})

test('edit writes references as the ids that the API takes', async () => {
  const [one, two] = [await make(admin, '/ip_policies', {}), await make(admin, '/ip_policies', {})]
  const body = { type: 'agent', ip_policy_ids: [one.id] }
  const restriction = await make(admin, '/ip_restrictions', body)
  const env = { VISUAL: `sed -i s/${one.id}/${two.id}/` }
  await cli.ok(['ip-restrictions', 'edit', restriction.id], { env })
  const { ip_policies } = (await admin('GET', `/ip_restrictions/${restriction.id}`)).body
  assert.deepEqual(
    ip_policies.map(({ id }: { id: string }) => id),
    [two.id],
  )
})

test('describe shows an edge with its routes, backends and their health, and policies with their rules', async () => {
  const policy = await make(admin, '/ip_policies', { description: 'who may' })
  await admin('PUT', `/ip_policies/${policy.id}/rules`, { rules: [{ action: 'allow', cidr: '198.51.100.0/24' }] })
  const backend = await make(admin, '/backends/static', { address: 'described.internal:8080' })
  const group = await make(admin, '/backends/failover', { backends: [backend.id] })
  const edge = await make(admin, '/edges/https', { hostports: ['described.example:443'] })
  await make(admin, `/edges/https/${edge.id}/routes`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id: group.id },
    ip_restriction: { ip_policy_ids: [policy.id] },
  })
  const shown = await cli.ok(['edges', 'https', 'describe', 'described.example:443'])
  for (const part of [
    new RegExp(`^id +${edge.id}$`, 'm'),
    new RegExp(`^backends/failover/${group.id} \\(routes\\.backend\\.backend\\)$`, 'm'),
    new RegExp(`^ip_policies/${policy.id} \\(routes\\.ip_restriction\\.ip_policies\\)$`, 'm'),
    /^ {2}description +who may$/m,
    /^ {2}ipr_\w+ +198\.51\.100\.0\/24 +allow/m,
    /health/,
  ])
    assert.match(shown, part)
  const missing = await cli(['ip-policies', 'describe', 'ipp_none'])
  assert.equal(missing.code, exits.notFound.code)
  assert.match(await cli.ok(['edges', 'https', 'describe', '--help']), /gatehouse edges https describe <id>/)
})
