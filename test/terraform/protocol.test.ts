// The provider without Terraform: every resource from creation to deletion, and who may call it.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { after, test } from 'node:test'
import { resources } from '../../src/terraform/catalog.ts'
import { ownCertificate } from '../../src/terraform/certificate.ts'
import { isObject } from '../../src/terraform/message_pack.ts'
import { newCertificate } from '../harness/certificates.ts'
import { gatehouse } from '../harness/command.ts'
import { freshHost } from '../harness/fixtures.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { type Attribute, complete, coreFor, messagesOf, packed, type State, startProvider } from './provider.ts'
import { configurationsOf, pathOf } from './resources.ts'

const plane = await sharedControlPlane({ after })
const account = await plane.newAccount()
const env = { GATEHOUSE_URL: plane.processes[0]?.origin ?? '', GATEHOUSE_API_KEY: account.token }
const { call } = await startProvider({ after }, env)
await call('ConfigureProvider', { config: packed({}) })
const { resource_schemas, data_source_schemas } = await call('GetProviderSchema')

/** What people change by hand. */
const driftOf = (typeName: string): string => (/_(user|bot_user)$/.test(typeName) ? 'name' : 'description')

for (const resource of resources()) {
  const { typeName, key, update } = resource
  test(`${typeName} is created, changed, found changed, imported and deleted, and no second plan has changes`, async () => {
    const core = await coreFor(call, typeName)
    const { least, full } = await configurationsOf(plane, account, resource)
    let state = await core.apply(least, null)
    if (update) {
      state = await core.apply(full, state)
      state = await core.apply(least, state)
      state = await core.apply(full, state)
      const field = driftOf(typeName)
      await account('PATCH', pathOf(resource, state), { [field]: 'changed by hand' })
      const drifted = (await core.read(state)) ?? assert.fail()
      assert.equal(drifted[field], 'changed by hand')
      assert.equal((await core.planned(full, drifted)).isChange, true)
      state = await core.apply(full, drifted)
    }
    const imported = await core.imported(key.map((part) => state[part]).join('/'))
    const { isChange } = await core.planned(full, imported)
    assert.equal(isChange, false, 'an imported resource differs from its configuration')
    await core.destroy(state)
    // The second time it is gone already, which is what was wanted.
    await core.destroy(state)
    assert.equal(await core.read(state), null)
  })
}

test('a spelling that the service changes is no difference, in a state and after an import', async () => {
  const { body: policy } = await account('POST', '/ip_policies', {})
  const domain = freshHost()
  const { certificate_pem, private_key_pem } = newCertificate([domain])
  const spellings: Record<string, object> = {
    gatehouse_ip_policy_rule: {
      ip_policy_id: policy.id,
      action: 'allow',
      cidr: '203.0.113.7',
      expires_at: '2099-01-31T13:00:00+01:00',
    },
    gatehouse_https_edge: { hostports: [`APP.${domain}:443`] },
    gatehouse_reserved_domain: { domain: domain.toUpperCase() },
    gatehouse_api_key: { allowed_cidrs: ['2001:DB8::/32', '203.0.113.7'] },
    gatehouse_tls_certificate: { certificate_pem: `our own\n\n${certificate_pem}\n\n`, private_key_pem },
  }
  for (const [typeName, config] of Object.entries(spellings)) {
    const core = await coreFor(call, typeName)
    const state = await core.apply(config, null)
    for (const [name, value] of Object.entries(config))
      if (name !== 'private_key_pem') assert.deepEqual(state[name], value, `${typeName}.${name}`)
    assert.equal((await core.planned(config, await core.imported(String(state.id)))).isChange, false, typeName)
  }
  const core = await coreFor(call, 'gatehouse_ip_policy')
  assert.equal((await core.apply({ description: '' }, null)).description, '')
})

test('a change of a fixed field replaces the resource, and one of a description leaves the rest known', async () => {
  const core = await coreFor(call, 'gatehouse_ip_restriction')
  const { body: policy } = await account('POST', '/ip_policies', {})
  const config = { type: 'agent', ip_policy_ids: [policy.id] }
  const state = await core.apply(config, null)
  assert.deepEqual((await core.planned({ ...config, type: 'dashboard' }, state)).replaces, ['type'])
  const { state: planned } = await core.planned({ ...config, description: 'agents' }, state)
  assert.deepEqual(planned, { ...state, description: 'agents' })
})

test('a health check keeps the path that its type has, and a path that is taken out of the configuration goes', async () => {
  const core = await coreFor(call, 'gatehouse_static_backend')
  const address = 'app.internal:8080'
  const pathIn = ({ health_check }: State) => isObject(health_check) && health_check.path
  let state = await core.apply({ address, health_check: { type: 'tcp' } }, null)
  assert.equal(pathIn(state), null)
  state = await core.apply({ address, health_check: { type: 'http' } }, state)
  assert.equal(pathIn(state), '/')
  state = await core.apply({ address, health_check: { type: 'http', path: '/healthz' } }, state)
  state = await core.apply({ address, health_check: { type: 'http' } }, state)
  assert.equal(pathIn(state), '/')
})

test('secrets are sensitive in the schema, write-only ones are in no state, and data sources have none', async () => {
  const sensitive = (schemas: object) =>
    Object.entries(schemas).flatMap(([type, { block }]) =>
      all(block.attributes).flatMap(({ name, ...is }) => (is.sensitive ? [`${type}.${name}`] : [])),
    )
  assert.deepEqual(sensitive(resource_schemas).sort(), [
    'gatehouse_api_key.token',
    'gatehouse_tls_certificate.private_key_pem',
    'gatehouse_webhook_destination.secret',
  ])
  for (const [type, { block }] of Object.entries<{ block: { attributes: Attribute[] } }>(data_source_schemas))
    assert.ok(!all(block.attributes).some(({ name }) => name === 'token' || name === 'secret'), type)
  const core = await coreFor(call, 'gatehouse_tls_certificate')
  const config = newCertificate([freshHost()])
  const state = await core.apply(config, null)
  assert.ok(!JSON.stringify(state).includes('PRIVATE KEY'))
  const renewed = newCertificate(['other.example'])
  const replaced = await core.apply(renewed, state)
  assert.notEqual(replaced.serial_number, state.serial_number)
  // Nothing else tells Terraform that a write-only value has changed.
  const { isChange } = await core.planned({ ...renewed, private_key_pem_version: 2 }, replaced)
  assert.equal(isChange, true)
  await core.apply({ ...renewed, private_key_pem_version: 2 }, replaced)
  const key = await (await coreFor(call, 'gatehouse_api_key')).apply({}, null)
  assert.match(String(key.token), /^gatehouse_/)
})

const all = (attributes: readonly Attribute[]): Attribute[] =>
  attributes.flatMap((each) => [each, ...all(each.nested_type?.attributes ?? [])])

test('Terraform before 1.11, which would store a write-only value, is refused', async () => {
  const type_name = 'gatehouse_tls_certificate'
  const config = complete(resource_schemas[type_name].block.attributes, newCertificate([freshHost()]))
  const [message = ''] = messagesOf(await call('ValidateResourceConfig', { type_name, config: packed(config) }))
  assert.match(message, /^private_key_pem needs Terraform 1\.11/)
})

test('every data source can be read', async () => {
  const { body: user } = await account('POST', '/users', { name: 'Grace', email: `${randomUUID()}@example.com` })
  const read = async (type_name: string, config: object) => {
    const { attributes } = data_source_schemas[type_name].block
    const response = await call('ReadDataSource', { type_name, config: packed(complete(attributes, config)) })
    return { response, messages: messagesOf(response) }
  }
  const needsId = ({ attributes }: { attributes: Attribute[] }) => attributes.some(({ required }) => required)
  for (const [type, { block }] of Object.entries<{ block: { attributes: Attribute[] } }>(data_source_schemas))
    if (!needsId(block)) assert.deepEqual((await read(type, {})).messages, [], type)
  assert.deepEqual((await read('gatehouse_user', { id: user.id })).messages, [])
  assert.match((await read('gatehouse_user', { id: 'usr_nobody' })).messages[0] ?? '', /ERR_NOT_FOUND/)
  assert.match((await read('gatehouse_users', { role: 'owner' })).messages[0] ?? '', /role must be one of/)
})

test('the service chooses the value of few omitted fields; every other one has a default in openapi.json', () => {
  const chosen = resources().flatMap(({ typeName, fields }) =>
    fields
      .filter(
        ({ isInput, isRequired, isNullable, ...field }) =>
          isInput && !isRequired && !isNullable && !('default' in field),
      )
      .map(({ name }) => `${typeName}.${name}`),
  )
  assert.deepEqual(chosen, [
    'gatehouse_api_key.owner_id',
    'gatehouse_api_key.scopes',
    'gatehouse_api_key.allowed_cidrs',
    'gatehouse_user.active',
  ])
})

test('only the Terraform that started it may call it, and it ends when told to', async () => {
  const provider = await startProvider({ after }, env)
  const stranger = provider.clientWith(ownCertificate(Date.now()))
  await assert.rejects(stranger('GetProviderSchema'), /UNAVAILABLE/)
  await provider.call('GetProviderSchema')
  assert.ok(existsSync(dirname(provider.address)))
  await Promise.all([once(provider.child, 'exit'), provider.call('Shutdown')])
  assert.ok(!existsSync(dirname(provider.address)), 'the folder of its socket is left')
})

test('started by hand, it says that Terraform starts it and how to install it', async () => {
  const { code, stderr } = await gatehouse(['terraform-provider'])
  assert.equal(code, 2)
  assert.match(stderr, /started by Terraform.*terraform-provider install/)
})
