import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { sized } from '../../test/harness/thorough.ts'
import { parseAddress } from '../kernel/ip/address.ts'
import { matches } from '../kernel/scopes.ts'
import { excessOf, type Grant, isUnlimited, mayCall, mayCallFrom, ownersRights } from './grant.ts'

const grant = (scopes: string[], allowedCidrs: string[] = []): Grant => ({ scopes, allowedCidrs })

test('a scope matches an operation, all of a resource, or a verb of every resource', () => {
  for (const [pattern, operation, expected] of [
    ['*', 'api_keys.create', true],
    ['api_keys.create', 'api_keys.create', true],
    ['api_keys.create', 'api_keys.create_all', false],
    ['api_keys.*', 'api_keys.rotate', true],
    ['api_keys.*', 'api_keys_of.list', false],
    ['tcp_edges.*', 'tcp_edges.backend.replace', true],
    ['tcp_edges.backend.*', 'tcp_edges.get', false],
    ['*.get', 'tcp_edges.backend.get', true],
    ['*.get', 'budget', false],
    ['*.get', 'get', false],
    ['*.list', 'api_keys.get', false],
  ] as const)
    assert.equal(matches(pattern, operation), expected, `${pattern} ${operation}`)
})

const part = fc.constantFrom('a', 'b', 'get', 'list')
const operation = fc.array(part, { minLength: 2, maxLength: 3 }).map((parts) => parts.join('.'))
const scope = fc.oneof(
  fc.constant('*'),
  operation,
  operation.map((name) => `${name}.*`),
  part.map((name) => `${name}.*`),
  part.map((name) => `*.${name}`),
  operation.map((name) => `*.${name}`),
)
const scopes = fc.array(scope, { minLength: 1, maxLength: 3 })

test('a grant within another never allows an operation that the other does not', () => {
  fc.assert(
    fc.property(scopes, scopes, fc.array(part, { minLength: 1, maxLength: 6 }), (own, wanted, parts) => {
      const name = parts.join('.')
      fc.pre(excessOf(grant(wanted), grant(own)) === undefined && mayCall(grant(wanted), name))
      assert.ok(mayCall(grant(own), name), `${wanted} within ${own} allows ${name}`)
    }),
    { numRuns: sized(500, 2_000) },
  )
})

test('every grant is within itself and within all operations', () => {
  fc.assert(
    fc.property(scopes, (own) => {
      assert.equal(excessOf(grant(own), grant(own)), undefined)
      assert.equal(excessOf(grant(own), grant(['*'])), undefined)
    }),
  )
})

test('what a grant has beyond another is named', () => {
  const own = grant(['api_keys.*', '*.get'], ['10.0.0.0/8', '2001:db8::/32'])
  assert.equal(excessOf(grant(['api_keys.create', 'users.get'], ['10.1.0.0/16']), own), undefined)
  assert.deepEqual(excessOf(grant(['users.get', '*'], ['10.1.0.0/16']), own), {
    field: 'scopes',
    index: 1,
    missing: '*',
  })
  assert.deepEqual(excessOf(grant(['users.*'], ['10.1.0.0/16']), own)?.missing, 'users.*')
  assert.deepEqual(excessOf(grant(['users.get']), own), { field: 'allowed_cidrs', missing: 'any address' })
  for (const range of ['0.0.0.0/0', '8.0.0.0/7', '11.0.0.0/8', '::/0', '2001:db8::/31'])
    assert.deepEqual(excessOf(grant(['users.get'], ['10.0.0.0/9', range]), own), {
      field: 'allowed_cidrs',
      index: 1,
      missing: range,
    })
})

test('a key with ranges is good from these only, and not from an address that cannot be read', () => {
  const at = (text: string, ranges: string[]) => mayCallFrom({ allowedCidrs: ranges }, parseAddress(text))
  assert.ok(at('10.255.0.1', ['192.0.2.0/24', '10.0.0.0/8']))
  assert.ok(at('::ffff:10.255.0.1', ['10.0.0.0/8']))
  assert.ok(at('2001:db8::1', ['2001:db8::/32']))
  assert.ok(!at('11.0.0.1', ['10.0.0.0/8']))
  assert.ok(!at('2001:db9::1', ['2001:db8::/32']))
  assert.ok(!at('::a00:1', ['10.0.0.0/8']))
  assert.ok(!at('unknown', ['0.0.0.0/0', '::/0']))
  assert.ok(at('unknown', []))
})

test("a key with its owner's rights is unlimited and good from anywhere; one with every verb is not unlimited", () => {
  assert.ok(isUnlimited(ownersRights))
  assert.ok(mayCall(ownersRights, 'api_keys.create'))
  assert.ok(mayCallFrom(ownersRights, parseAddress('192.0.2.1')))
  assert.ok(isUnlimited(grant(['api_keys.*', '*'])))
  assert.ok(!isUnlimited(grant(['*.get', '*.list', 'api_keys.*'])))
})
