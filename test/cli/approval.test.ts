// What the command line does with changes that need approval.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { exits } from '../../src/cli/exits.ts'
import { newIndependentAdmin } from '../harness/principals.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { cliFor } from './harness.ts'
import { stateFile } from './state_harness.ts'

const plane = await sharedControlPlane({ after })

async function accountWithApproval() {
  const author = await plane.newAccount()
  const approver = await newIndependentAdmin(plane, author)
  const { body: policy } = await author('POST', '/ip_policies', { description: 'office' })
  const set = await author('PUT', '/approval_policy', { required_for: ['ip_policies'] })
  assert.equal(set.status, 200, set.text)
  return { author, approver, policy, cli: cliFor(plane, author), approverCli: cliFor(plane, approver) }
}

test('a change that needs approval says what to do, and exits with a code of its own', async () => {
  const { author, policy, cli, approverCli } = await accountWithApproval()
  const sent = await cli(['ip-policies', 'update', policy.id, '--description', 'new'])
  assert.equal(sent.code, exits.waiting.code, sent.stderr)
  assert.equal(sent.stdout, '')
  const commands = [...sent.stderr.matchAll(/gatehouse (change-sets .+)$/gm)].map(([, typed = '']) => typed.split(' '))
  const [preview = [], approve = [], apply = []] = commands
  for (const typed of [preview, approve, apply]) {
    const done = await approverCli(typed)
    assert.equal(done.code, 0, `${typed.join(' ')}: ${done.stderr}`)
  }
  assert.equal((await author('GET', policy.uri)).body.description, 'new')
  const json = await cli(['ip-policies', 'delete', policy.id, '--yes', '-o', 'json'])
  assert.equal(json.code, exits.waiting.code, json.stderr)
  assert.equal(JSON.parse(json.stdout).state, 'waiting')
  const glass = ['--break-glass', '--service-reason', 'locked out']
  const broken = await cli(['ip-policies', 'update', policy.id, '--description', 'now', ...glass])
  assert.equal(broken.code, 0, broken.stderr)
})

test('a state file waits as one change set, and is applied as a whole', async () => {
  const { author, approver, cli } = await accountWithApproval()
  const file = await stateFile(`gatehouse: 1
ip_policies:
  office: {description: office, rules: [allow 10.0.0.0/8]}
backends:
  app: {address: app.internal:8080}
https_edges:
  site:
    hostports: [${author.accountId.slice(3)}.example:443]
    routes:
      - {match_type: path_prefix, match: /, backend: {backend: app}, ip_restriction: {ip_policies: [office]}}
`)
  const sent = await cli(['state', 'apply', file])
  assert.equal(sent.code, exits.waiting.code, sent.stdout + sent.stderr)
  assert.deepEqual((await author('GET', '/backends/static')).body.backends ?? [], [])
  const again = await cli(['state', 'apply', file])
  assert.equal(again.code, exits.waiting.code, again.stderr)
  const { change_sets } = (await author('GET', '/change_sets')).body
  assert.equal(change_sets.length, 1, 'the second run finds the first one')
  const { id, content_sha256 } = (await author('GET', `/change_sets/${change_sets[0].id}`)).body
  const approved = await approver('POST', `/change_sets/${id}/approve`, { content_sha256 })
  assert.equal(approved.status, 200, approved.text)
  const applied = await author('POST', `/change_sets/${id}/apply`, {})
  assert.equal(applied.status, 200, applied.text)
  const nothing = await cli(['state', 'apply', file])
  assert.deepEqual([nothing.code, /Nothing to do/.test(nothing.stderr + nothing.stdout)], [0, true], nothing.stderr)
})
