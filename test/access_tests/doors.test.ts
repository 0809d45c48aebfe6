// Every way to change what access tests are about, through every way into the service.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { cliFor } from '../cli/harness.ts'
import { stateFile } from '../cli/state_harness.ts'
import { type Account, startControlPlane } from '../harness/control_plane.ts'
import { assertRefused, make } from '../harness/fixtures.ts'
import { signIn } from '../harness/session.ts'
import { sized } from '../harness/thorough.ts'
import { breakingChanges, type Change, outside, setStage } from './breaking_changes.ts'

const plane = await startControlPlane({ after })
const code = 'ERR_ACCESS_TEST_FAILED'
let refused = 0

type Door = (as: Account, change: Change) => Promise<void>
const throughCommand = async (as: Account, args: string[]) => {
  const { code: exit, stderr } = await cliFor(plane, as)(args)
  assert.notEqual(exit, 0)
  assert.match(stderr, /ERR_ACCESS_TEST_FAILED/)
  assert.match(stderr, /act_\w{26}.* must be (allowed|refused) /)
}
const doors: Record<string, Door> = {
  async API(as, { method, path, body }) {
    const answer = await as(method, path, body)
    assertRefused(answer, 409, code)
    assert.match(answer.body.msg, /act_\w{26}: \S+ must be (allowed|refused) /)
    assert.match(answer.body.details.access_tests, /^act_/)
  },
  async 'a dry run'(as, { method, path, body }) {
    const answer = await as(method, `${path}?dry_run=true`, body)
    assert.equal(answer.status, 200, answer.text)
    assert.ok(answer.body.failed_access_tests.length > 0, answer.text)
  },
  async 'the dashboard'(as, { method, path, body }) {
    assertRefused(await (await signIn(as))(method, path, body), 409, code)
  },
  async 'a change set'(as, { operation, parameters, body }) {
    const changes = [{ operation, ...(parameters && { parameters }), ...(body && { body }) }]
    const { uri } = await make(as, '/change_sets', { changes })
    const preview = await as('POST', `${uri}/preview`, {})
    assert.ok(preview.body.failed_access_tests.length > 0, preview.text)
    assertRefused(await as('POST', `${uri}/apply`, {}), 409, code)
  },
  'the command line': (as, { method, path, body }) =>
    throughCommand(as, ['api', method, path, ...(body ? ['--data', JSON.stringify(body)] : [])]),
}

const resultsOf = async (as: Account) =>
  (await as('GET', '/access_tests')).body.access_tests.map(({ id, result }: Record<string, string>) => [id, result])

async function throughDoor(name: string, door: Door): Promise<void> {
  const as = await plane.newAccount()
  const stage = await setStage(as)
  const before = await resultsOf(as)
  assert.ok(before.every(([, result]: string[]) => result === 'passed') && before.length === 8)
  const making = breakingChanges[name] ?? assert.fail()
  await door(as, making(stage))
  assert.deepEqual(await resultsOf(as), before)
  refused++
}

for (const [through, door] of Object.entries(doors))
  test(`through ${through}, no change that breaks an access test is made`, async () => {
    const waiting = Object.keys(breakingChanges).values()
    const worker = async () => {
      for (const name of waiting)
        await throughDoor(name, door).catch((error) => {
          throw new Error(`${name}: ${error.message}`, { cause: error })
        })
    }
    await Promise.all([worker(), worker(), worker(), worker()])
  })

test('nor with a state file', async () => {
  // The last two are about what a state file cannot hold.
  const held = Object.entries(breakingChanges).slice(0, -2)
  const waiting = held.filter((_, index) => index % sized(3, 1) === 0).values()
  const worker = async () => {
    for (const [name, making] of waiting) {
      const [as, like] = [await plane.newAccount(), await plane.newAccount()]
      await setStage(as)
      const before = await resultsOf(as)
      const { method, path, body } = making(await setStage(like, false))
      const made = await like(method, path, body)
      assert.ok(made.status < 300, `${name}: ${made.text}`)
      const file = await stateFile(await cliFor(plane, like).ok(['state', 'dump', '--no-ids']))
      await throughCommand(as, ['state', 'sync', file, '--yes']).catch((error) => {
        throw new Error(`${name}: ${error.message}`, { cause: error })
      })
      assert.deepEqual(await resultsOf(as), before, name)
      // An admin can ignore them there too.
      await cliFor(plane, as).ok(['state', 'sync', file, '--yes', '--ignore-access-tests'])
      refused++
    }
  }
  await Promise.all([worker(), worker(), worker(), worker()])
})

test('nor by importing rules', async () => {
  const as = await plane.newAccount()
  const { ours } = await setStage(as)
  const file = await stateFile(`allow 10.0.0.0/8\nallow ${outside} # imported\n`)
  await throughCommand(as, ['ip-policies', 'rules', 'replace', ours, '--file', file])
  refused++
})

test('these were a hundred cases and more', () => assert.ok(refused > 100, `${refused}`))
