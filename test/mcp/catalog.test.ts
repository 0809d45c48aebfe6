// What an assistant can call at all, beside what the service says about each of its operations.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { asks, callable, drafts, inChangeSets, readable } from '../../src/cli/mcp/catalog.ts'
import { tools } from '../../src/cli/mcp/tools.ts'
import { canBePlanned, type Route } from '../../src/http/route.ts'
import { routes } from '../../src/resources/routes.ts'

const sessions = /^(dashboard_session|command_sign_in)\./
const names = (those: Iterable<Route>) => [...those].map(({ operation }) => operation).sort()

test('nothing can be called but reads that return no secret, questions, and drafts of change sets', () => {
  const byName = new Map(routes.map((route) => [route.operation, route]))
  for (const { id, method, path } of callable.values()) {
    const route = byName.get(id) ?? assert.fail(`${id} is no operation`)
    assert.deepEqual([method, path.replaceAll(/\{(\w+)\}/g, ':$1')], [route.method, route.path])
    if ((drafts as readonly string[]).includes(id)) continue
    assert.ok(route.method === 'GET' || route.onlyAsks, `${id} changes something`)
    assert.ok(!route.secret && !route.setsCookie && !route.signsIn && !route.events, id)
  }
  assert.deepEqual([...drafts].sort(), ['change_sets.create', 'change_sets.delete', 'change_sets.update'])
  assert.deepEqual([...asks].sort(), names(routes.filter(({ onlyAsks }) => onlyAsks)))
})

test('everything that answers in JSON can be read, but for what belongs to a browser', () => {
  const reads = routes.filter(
    ({ method, events, operation }) => method === 'GET' && !events && !sessions.test(operation),
  )
  assert.deepEqual([...readable.keys()].sort(), names(reads))
  assert.ok(readable.size > 50)
})

test('what can be proposed is what the service takes in a change set', () => {
  // There are tools for drafts.
  const planned = routes.filter((route) => canBePlanned(route) && !route.operation.startsWith('change_sets.'))
  assert.deepEqual([...inChangeSets.keys()].sort(), names(planned))
  for (const { parameters } of inChangeSets.values())
    for (const { name } of parameters)
      assert.ok(!['allow_self_lockout', 'confirm', 'dry_run', 'ignore_access_tests', 'wait'].includes(name))
})

test('a tool says what it changes, and that is nothing but a draft', () => {
  const changing = tools.flatMap(({ name, changes }) => (changes ? [[name, changes]] : []))
  assert.deepEqual(changing, [
    ['propose_changes', 'change_sets.create'],
    ['update_proposal', 'change_sets.update'],
    ['withdraw_proposal', 'change_sets.delete'],
  ])
})
