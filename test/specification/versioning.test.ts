import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer } from '../harness/client.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { type HeaderLine, rawExchange } from '../harness/raw.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const aliased = await startControlPlane(
  { after },
  { env: { GATEHOUSE_VERSION_HEADER_ALIASES: 'Ngrok-Version, X-Other-Version' } },
)
const aliasedAdmin = await aliased.newAccount()

const call = (on: Parameters<typeof rawExchange>[0], token: string, versions: HeaderLine[]): Promise<Answer> =>
  rawExchange(on, { method: 'GET', path: '/caller', headers: [['Authorization', `Bearer ${token}`], ...versions] })
const withVersions = (...versions: HeaderLine[]) => call(plane, admin.token, versions)
const withAliases = (...versions: HeaderLine[]) => call(aliased, aliasedAdmin.token, versions)

function assertRefused({ status, body }: Answer, what?: string): void {
  assert.equal(status, 400, what)
  assert.equal(body.error_code, 'ERR_SERVICE_VERSION', what)
  assert.match(body.msg, /Service-Version: 2/)
}

test('§9.1 a request with the header Service-Version: 2 is served, with the name in any case', async () => {
  for (const name of ['Service-Version', 'service-version', 'SERVICE-VERSION'])
    assert.equal((await withVersions([name, '2'])).status, 200)
})

test('§9.2 a request without the header gets 400', async () => {
  assertRefused(await withVersions())
})

test('§9.2 a request that repeats the header gets 400, even when both are 2', async () => {
  assertRefused(await withVersions(['Service-Version', '2'], ['Service-Version', '2']))
  assertRefused(await withVersions(['Service-Version', '2'], ['service-version', '3']))
  assertRefused(await withVersions(['Service-Version', '2, 2']))
})

test('§9.2 a request with another value gets 400', async () => {
  for (const value of ['', '0', '1', '3', '02', '2.0', '+2', '"2"', 'v2', '2;', '2 2', 'two'])
    assertRefused(await withVersions(['Service-Version', value]), value)
})

test('§9.2 a header that the operator did not name does not count', async () => {
  assertRefused(await withVersions(['Ngrok-Version', '2']))
  assert.equal((await withVersions(['Service-Version', '2'], ['Ngrok-Version', '7'])).status, 200)
})

test('§9 every operation asks for the version', async () => {
  for (const [method, path] of [
    ['POST', '/api_keys'],
    ['GET', '/api_keys'],
    ['GET', '/api_keys/ak_00000000000000000000000000'],
    ['PATCH', '/api_keys/ak_00000000000000000000000000'],
    ['DELETE', '/api_keys/ak_00000000000000000000000000'],
  ] as const)
    assertRefused(
      await rawExchange(plane, { method, path, headers: [['Authorization', `Bearer ${admin.token}`]] }),
      `${method} ${path}`,
    )
})

test("§9 each of the operator's aliases counts as the version header, and so does the original", async () => {
  for (const name of ['Ngrok-Version', 'ngrok-version', 'X-Other-Version', 'Service-Version'])
    assert.equal((await withAliases([name, '2'])).status, 200, name)
  assertRefused(await withAliases())
})

test('§9 an alias follows the same rules: once, and with the value 2', async () => {
  assertRefused(await withAliases(['Ngrok-Version', '1']))
  assertRefused(await withAliases(['Ngrok-Version', '2'], ['Ngrok-Version', '2']))
})

test('§9 several version headers in one request must agree', async () => {
  assert.equal((await withAliases(['Ngrok-Version', '2'], ['Service-Version', '2'])).status, 200)
  assertRefused(await withAliases(['Ngrok-Version', '2'], ['Service-Version', '3']))
  assertRefused(await withAliases(['Ngrok-Version', '3'], ['Service-Version', '2']))
})
