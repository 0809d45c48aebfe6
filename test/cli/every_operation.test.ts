// The command line has every operation of openapi.json: each is really called, with what a person would type.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { exits } from '../../src/cli/exits.ts'
import { commandFlags, secretFields } from '../../src/cli/flags.ts'
import { findOperation, operations, shortcutOperations } from '../../src/cli/operations.ts'
import { routes } from '../../src/resources/routes.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { expectations, writeTo } from '../isolation/expectations.ts'
import { cliFor } from './harness.ts'

const plane = await startControlPlane({ after }, { env: { GATEHOUSE_TRUSTED_PROXIES: '127.0.0.1' } })
writeTo(plane.db)
const admin = await plane.newAccount()
const cli = cliFor(plane, admin)

test('every operation has its own command words', () => {
  assert.deepEqual(operations.map(({ id }) => id).sort(), routes.map(({ operation }) => operation).sort())
  const words = [...operations, ...shortcutOperations].map((operation) => operation.words.join(' '))
  assert.equal(new Set(words).size, words.length)
  for (const operation of [...operations, ...shortcutOperations])
    assert.deepEqual(findOperation([...operation.words, '--output', 'json']), {
      operation,
      rest: ['--output', 'json'],
    })
})

test('no flag of an operation hides another, or one of the command', () => {
  for (const { words, flags } of operations) {
    const names = flags.flatMap(({ name }) => [name, `no-${name}`])
    const all = [...names, ...Object.keys(commandFlags)]
    assert.equal(new Set(all).size, all.length, `${words.join(' ')}: ${names.join(', ')}`)
  }
})

/** As a person would type the fields of a body. */
const toFlags = (body: object): string[] =>
  Object.entries(body).flatMap(([name, value]) => {
    const flag = name.replaceAll('_', '-')
    if (value === null || value === false) return [`--no-${flag}`]
    if (value === true) return [`--${flag}`]
    if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return [`--${flag}`, value.join(',')]
    return [`--${flag}`, typeof value === 'object' ? JSON.stringify(value) : String(value)]
  })

/** Secrets do not go into arguments, and neither does what comes from files. */
function toTyped(body: object): { flags: string[]; input?: string } {
  const isSecret = [...secretFields, 'private_key_pem', 'certificate_authorities'].some((name) => name in body)
  return isSecret ? { flags: ['--data', '-'], input: JSON.stringify(body) } : { flags: toFlags(body) }
}

/** What the answer must have of what was sent; references and ranges come back in another form. */
const shownOf = (body: object) =>
  Object.fromEntries(
    Object.entries(body).filter(([name, value]) => !/_ids?$|^cidr$|^token$/.test(name) && typeof value !== 'object'),
  )

const exitOf: Readonly<Record<number, number>> = {
  403: exits.notAllowed.code,
  404: exits.notFound.code,
  409: exits.refused.code,
}

describe('every operation does what it says', { concurrency: 3 }, () => {
  // A stream does not end by itself: test/cli/tail.test.ts follows one.
  for (const operation of operations.filter(({ streams }) => !streams)) {
    const expectation = expectations[operation.id]
    test(`gatehouse ${operation.words.join(' ')}`, async () => {
      assert.ok(expectation, 'it has no entry in test/isolation/expectations.ts')
      const ids = (await expectation.path?.(admin)) ?? {}
      const body = (await expectation.body?.(admin)) ?? {}
      const before = expectation.lists ? await expectation.lists(admin) : undefined
      const positionals = operation.positionals.map(({ name }) => ids[name] ?? assert.fail(`no ${name}`))
      const typed = toTyped(body)
      const args = [...operation.words, ...positionals, ...typed.flags, '--output', 'json']
      const { code, stdout: printed, stderr } = await cli(args, typed)
      assert.equal(code, exitOf[expectation.admin] ?? 0, stderr)
      if (code !== 0) return
      if (expectation.admin === 204) {
        assert.equal(printed, '')
        const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name) => ids[name] ?? '')
        // A withdrawn invitation stays, and says that it was withdrawn.
        if (operation.id === 'users.invitation.delete') return
        // What is only a part of a resource cannot be read under the path that removes it.
        assert.ok([404, 405].includes((await admin('GET', path)).status))
        return
      }
      const answer = JSON.parse(printed)
      for (const [name, value] of Object.entries(shownOf(body)))
        if (operation.fields.includes(name)) assert.deepEqual(answer[name], value, printed)
      if (operation.listField) assert.ok(Array.isArray(answer[operation.listField]))
      if (before && operation.listField)
        assert.ok(
          answer[operation.listField].some(
            (row: { id: string; resource_id?: string }) => row.id === before || row.resource_id === before,
          ),
          printed,
        )
      // What undoes something is a change set of its own.
      if (ids.id && answer.id && !operation.id.endsWith('.revert')) assert.equal(answer.id, ids.id)
    })
  }
})
