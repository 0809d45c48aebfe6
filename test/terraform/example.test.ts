// examples/terraform, as docs/guides/terraform.md says to use it.
import assert from 'node:assert/strict'
import { cp } from 'node:fs/promises'
import { after, test } from 'node:test'
import { startControlPlane } from '../harness/control_plane.ts'
import { isTerraformMissing, newWorkspace } from './workspace.ts'

test('the example makes a site, says that no edge node has it yet, and is complete', {
  skip: isTerraformMissing,
}, async (t) => {
  const plane = await startControlPlane({ after })
  const { token } = await plane.newAccount()
  const workspace = await newWorkspace(t, { origin: plane.processes[0]?.origin ?? '', token })
  await cp(new URL('../../examples/terraform', import.meta.url), workspace.folder, { recursive: true })
  await workspace.write('provider.tf', '')
  await workspace.ok('init')
  const applied = await workspace.ok('apply', '-auto-approve')
  assert.match(applied, /8 added, 0 changed, 0 destroyed/)
  assert.match(applied, /no edge node is live/)
  assert.match(await workspace.ok('output', '-raw', 'deploy_token'), /^gatehouse_/)
  assert.equal(await workspace.isChange(), false)
  await workspace.ok('destroy', '-auto-approve')
})
