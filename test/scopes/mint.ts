import assert from 'node:assert/strict'
import { BlockList, isIPv6 } from 'node:net'
import fc from 'fast-check'
import { routes } from '../../src/resources/routes.ts'
import type { ControlPlane } from '../harness/control_plane.ts'
import { make } from '../harness/fixtures.ts'

/** What a key may do, and from where. Judged here by other means than the service's. */
type Grant = { scopes: string[]; allowed_cidrs: string[] }

const operations = routes.map(({ operation }) => operation)
const resources = [...new Set(operations.map((operation) => operation.split('.')[0] ?? ''))]
const verbs = [...new Set(operations.map((operation) => operation.split('.').at(-1) ?? ''))]

const scope = fc.oneof(
  fc.constant('*'),
  fc.constantFrom(...operations),
  fc.constantFrom(...resources).map((resource) => `${resource}.*`),
  fc.constantFrom(...verbs).map((verb) => `*.${verb}`),
)
const range = fc.constantFrom(
  '0.0.0.0/0',
  '::/0',
  '127.0.0.0/8',
  '127.0.0.1/32',
  '127.0.0.0/9',
  '10.0.0.0/8',
  '10.64.0.0/10',
  '192.0.2.7/32',
  '2001:db8::/32',
  '2001:db8:1::/48',
)
const ranges = fc.uniqueArray(range, { maxLength: 3 })
const grant: fc.Arbitrary<Grant> = fc.record({
  scopes: fc.uniqueArray(scope, { minLength: 1, maxLength: 4 }),
  allowed_cidrs: ranges,
})
/** One that can reach the operations that give something to a key, from where the test is. */
const attacker = grant.map(
  ({ scopes, allowed_cidrs }): Grant => ({
    scopes: [...new Set([...scopes.filter((each) => each !== '*'), 'api_keys.*'])],
    allowed_cidrs: allowed_cidrs.length ? [...new Set([...allowed_cidrs, '127.0.0.1/32'])] : [],
  }),
)
const samples = [
  ...['127.0.0.1', '127.200.0.1', '10.0.0.1', '10.65.0.1', '192.0.2.7', '203.0.113.9'],
  ...['2001:db8::1', '2001:db8:1::1', '2001:db9::1'],
]

const mayCall = ({ scopes }: Grant, operation: string) =>
  scopes.some((each) => new RegExp(`^${each.replaceAll('.', '\\.').replaceAll('*', '.*')}$`).test(operation))

function mayCallFrom({ allowed_cidrs }: Grant, address: string): boolean {
  if (allowed_cidrs.length === 0) return true
  const family = (text: string) => (isIPv6(text) ? 'ipv6' : 'ipv4')
  const list = new BlockList()
  for (const each of allowed_cidrs) {
    const [network = '', length] = each.split('/')
    list.addSubnet(network, Number(length), family(network))
  }
  return list.check(address, family(address))
}

/** Whether there is a call that the wanted key could make and its maker could not. */
const isBeyond = (wanted: Grant, own: Grant): boolean =>
  operations.some((operation) => mayCall(wanted, operation) && !mayCall(own, operation)) ||
  samples.some((address) => mayCallFrom(wanted, address) && !mayCallFrom(own, address))

const attempt = fc
  .record({ own: attacker, wanted: grant, way: fc.constantFrom('create', 'widen itself', 'widen another', 'rotate') })
  .filter(({ own, wanted }) => isBeyond(wanted, own))

/** Tries to get a key that can do more than the one in use, so many times. All must be refused. */
export async function tryToMint(
  plane: Pick<ControlPlane, 'clientFor' | 'newAccount'>,
  attempts: number,
): Promise<void> {
  const admin = await plane.newAccount()
  const rightful = await make(admin, '/api_keys', { description: 'everything' })
  await fc.assert(
    fc.asyncProperty(attempt, async ({ own, wanted, way }) => {
      const key = await make(admin, '/api_keys', own)
      const thief = plane.clientFor(key.token)
      const other = async (fields: object) => (await make(admin, '/api_keys', fields)).uri
      const tries: Record<typeof way, () => ReturnType<typeof thief>> = {
        create: () => thief('POST', '/api_keys', wanted),
        'widen itself': () => thief('PATCH', key.uri, wanted),
        'widen another': async () => thief('PATCH', await other({ ...own, scopes: ['api_keys.get'] }), wanted),
        rotate: async () => thief('POST', `${await other(wanted)}/rotate`, {}),
      }
      const { status, body, text } = await tries[way]()
      assert.deepEqual([status, body.error_code], [403, 'ERR_SCOPE'], `${way}: ${text}`)
    }),
    { numRuns: attempts },
  )
  assert.equal((await plane.clientFor(rightful.token)('GET', '/caller')).status, 200)
}
