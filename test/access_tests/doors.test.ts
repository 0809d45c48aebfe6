// Every way to change what access tests are about, through every way into the service.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { resources } from '../../src/terraform/catalog.ts'
import { cliFor } from '../cli/harness.ts'
import { stateFile } from '../cli/state_harness.ts'
import { type Account, startControlPlane } from '../harness/control_plane.ts'
import { assertRefused, make } from '../harness/fixtures.ts'
import { signIn } from '../harness/session.ts'
import { sized } from '../harness/thorough.ts'
import { coreFor, messagesOf, packed, startProvider } from '../terraform/provider.ts'
import { breakingChanges, type Change, outside, setStage, testsOf } from './breaking_changes.ts'

const plane = await startControlPlane({ after })
const code = 'ERR_ACCESS_TEST_FAILED'
/** What was refused, by door. */
const refused: Record<string, string[]> = {}
const note = (door: string, name: string) => {
  refused[door] = [...(refused[door] ?? []), name]
}

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
    assertRefused(await as('POST', `${uri}/apply`, { confirm_within_seconds: 60 }), 409, code)
  },
  'the command line': (as, { method, path, body }) =>
    throughCommand(as, ['api', method, path, ...(body ? ['--data', JSON.stringify(body)] : [])]),
}

const resultsOf = async (as: Account) =>
  (await as('GET', '/access_tests')).body.access_tests.map(({ id, result }: Record<string, string>) => [id, result])

/** Refused, and nothing has happened. */
async function refusing(as: Account, work: () => Promise<void>): Promise<void> {
  const before = await resultsOf(as)
  assert.ok(before.every(([, result]: string[]) => result === 'passed') && before.length >= 8, JSON.stringify(before))
  await work()
  assert.deepEqual(await resultsOf(as), before)
}

/** With several accounts at the same time. */
async function withEach(names: readonly string[], work: (name: string, as: Account) => Promise<void>, workers = 4) {
  const waiting = names.values()
  const worker = async () => {
    for (const name of waiting)
      await work(name, await plane.newAccount()).catch((error) => {
        throw new Error(`${name}: ${error.message}`, { cause: error })
      })
  }
  await Promise.all(Array.from({ length: workers }, worker))
}

const names = Object.keys(breakingChanges)
/** Where each takes a program of its own, only some in the usual run. All of them have been seen to be refused. */
const some = (chosen: readonly string[], first = 0) =>
  chosen.filter((_, index) => index % sized(3, 1) === first % sized(3, 1))
const whole = ['API', 'the dashboard', 'a change set']
const makingOf = (name: string) => breakingChanges[name] ?? assert.fail(name)

for (const [index, [through, door]] of Object.entries(doors).entries())
  test(`through ${through}, no change that breaks an access test is made`, () =>
    withEach(whole.includes(through) ? names : some(names, index), async (name, as) => {
      const change = makingOf(name)(await setStage(as))
      await refusing(as, () => door(as, change))
      note(through, name)
    }))

/** Their events have only the number of rules, so nothing can be undone. */
const notUndone = ['replace the rules of a module', 'remove rules']

test('nor by undoing that it was undone', () =>
  withEach(
    some(
      names.filter((name) => !notUndone.includes(name)),
      2,
    ),
    async (name, as) => {
      const { method, path, body } = makingOf(name)(await setStage(as))
      const made = await as(method, `${path}?ignore_access_tests=true`, body)
      assert.ok(made.status < 300, made.text)
      const { audit_events } = (await as('GET', '/audit_events')).body
      const operation_id = made.headers.get('operation-id')
      const event = audit_events.find(
        (each: { operation_id: string; operation: string; after: object | null }) =>
          each.operation_id === operation_id && !(each.after && 'ignored_access_tests' in each.after),
      )
      const { id } = await make(as, `/audit_events/${event.id}/revert`)
      const applied = await as('POST', `/change_sets/${id}/apply`, {})
      assert.equal(applied.status, 200, applied.text)
      // Tests of what was deleted went with it.
      await testsOf(as)
      const { uri } = await make(as, `/change_sets/${id}/revert`)
      await refusing(as, async () => assertRefused(await as('POST', `${uri}/apply`, {}), 409, code))
      note('undo', name)
    },
  ))

/** Terraform has rules one by one, and a module that its configuration does not have is left alone. */
const notInTerraform = [
  ...notUndone,
  'update a TCP edge',
  'delete the module of a TCP edge',
  'delete the module of a route',
]

test('nor by Terraform', async (t) => {
  const { call } = await startProvider(t, {})
  // One after the other: the provider has one key at a time.
  await withEach(
    some(names.filter((name) => !notInTerraform.includes(name))),
    async (name, as) => {
      const change = makingOf(name)(await setStage(as))
      await call('ConfigureProvider', {
        config: packed({ url: plane.processes[0]?.origin ?? null, api_key: as.token, profile: null }),
      })
      await refusing(as, async () => {
        const messages = await terraformed(call, change)
        assert.match(messages.join('\n'), /ERR_ACCESS_TEST_FAILED|must be (allowed|refused)/)
      })
      note('Terraform', name)
    },
    1,
  )
})

/** What applying it prints. A module is an attribute of its edge or route. */
async function terraformed(
  call: Awaited<ReturnType<typeof startProvider>>['call'],
  { method, path, body }: Change,
): Promise<string[]> {
  const [, whole = '', module] = /^(.*?)(?:\/(ip_restriction))?$/.exec(path) ?? []
  const matching = (template: string) =>
    new RegExp(`^${template.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`).exec(whole)?.groups
  const type =
    resources().find((each) =>
      method === 'POST' ? whole === each.create.path || matching(each.create.path) : matching(each.read.path),
    ) ?? assert.fail(path)
  const core = await coreFor(call, type.typeName)
  const apply = async (prior: object | null, planned: object | null, config: object | null) =>
    messagesOf(
      await call('ApplyResourceChange', {
        type_name: type.typeName,
        prior_state: packed(prior as null),
        planned_state: packed(planned as null),
        config: packed(config as null),
      }),
    )
  if (method === 'POST') {
    const { whole: config, state } = await core.planned({ ...matching(type.create.path), ...body }, null)
    return apply(null, state, config)
  }
  const parts = matching(type.read.path) ?? {}
  const prior = await core.imported(type.key.map((part) => parts[part]).join('/'))
  if (method === 'DELETE') return apply(prior, null, null)
  const settable = core.attributes.filter(({ required, optional }) => required || optional)
  const present = Object.fromEntries(settable.map(({ name }) => [name, prior[name]]))
  const { whole: config, state } = await core.planned({ ...present, ...(module ? { [module]: body } : body) }, prior)
  return apply(prior, state, config)
}

test('nor with a state file', () => {
  // The last two are about what a state file cannot hold.
  return withEach(some(names.slice(0, -2)), async (name, as) => {
    const like = await plane.newAccount()
    await setStage(as)
    const { method, path, body } = makingOf(name)(await setStage(like, false))
    const made = await like(method, path, body)
    assert.ok(made.status < 300, made.text)
    const file = await stateFile(await cliFor(plane, like).ok(['state', 'dump', '--no-ids']))
    await refusing(as, () => throughCommand(as, ['state', 'sync', file, '--yes']))
    // An admin can ignore them there too.
    await cliFor(plane, as).ok(['state', 'sync', file, '--yes', '--ignore-access-tests'])
    note('a state file', name)
  })
})

test('nor by importing rules', async () => {
  const as = await plane.newAccount()
  const { ours } = await setStage(as)
  const file = await stateFile(`allow 10.0.0.0/8\nallow ${outside} # imported\n`)
  await refusing(as, () => throughCommand(as, ['ip-policies', 'rules', 'replace', ours, '--file', file]))
  note('import', 'replace the rules of a module')
})

test('these were a hundred cases and more', () => {
  const counts = Object.fromEntries(Object.entries(refused).map(([door, done]) => [door, done.length]))
  console.log(counts)
  assert.ok(Object.values(refused).flat().length > sized(100, 180), JSON.stringify(counts))
})
