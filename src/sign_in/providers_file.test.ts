import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { readProviders } from './providers_file.ts'

const folder = mkdtempSync(join(tmpdir(), 'providers-'))
after(() => rmSync(folder, { recursive: true }))
function read(text: string) {
  const file = join(folder, 'oidc.yaml')
  writeFileSync(file, text)
  return readProviders(file)
}
const good = `
providers:
  - name: acme
    account: default
    issuer: https://id.example.com
    client_id: gatehouse
    client_secret_file: acme.secret
    create_users: true
    allowed_domains: [Example.com]
    default_role: member
`

test('a provider needs little, and its secret is in a file beside', () => {
  writeFileSync(join(folder, 'acme.secret'), 'hush\n')
  const [acme] = read(good)
  assert.equal(acme?.clientSecret, 'hush')
  assert.equal(acme?.title, 'acme')
  assert.deepEqual(acme?.scopes, ['openid', 'email', 'profile'])
  assert.deepEqual(acme?.allowedDomains, ['example.com'])
  assert.equal(acme?.linkByEmail, false)
  assert.deepEqual(readProviders(''), [])
})

test('all faults of a file are named at once', () => {
  const faulty = `
providers:
  - name: Acme!
    issuer: http://id.example.com
    client_id: 7
    client_secret_file: missing.secret
    scopes: [email]
    create_users: yes please
    link_by_email: true
    roles: { owner: [x], admin: ops }
    default_role: root
    clock_tolerance_seconds: -1
    secret: hush
  - name: same
    account: a
    issuer: https://id.example.com
    client_id: x
    allowed_groups: [staff]
  - name: same
    account: a
    issuer: https://id.example.com/?x
    client_id: x
    create_users: true
    allowed_domains: ['not a domain']
  - text
`
  assert.throws(
    () => read(faulty),
    ({ name, message }: Error) => {
      assert.equal(name, 'ConfigError')
      for (const part of [
        'providers[0].name must be',
        'providers[0].account is missing',
        'providers[0].issuer must be an https URL',
        'providers[0].client_id must be a text',
        'providers[0].client_secret_file is missing.secret, which cannot be read',
        'providers[0].scopes must include openid',
        'providers[0].create_users must be true or false',
        'providers[0].link_by_email needs allowed_domains',
        'providers[0].roles.owner is not one of',
        'providers[0].roles.admin must be a list of texts',
        'providers[0].default_role must be one of',
        'providers[0].clock_tolerance_seconds must be',
        'providers[0].secret is not known',
        'providers[0].allowed_domains or allowed_groups must say',
        'providers[2].issuer must be',
        'providers[2].allowed_domains has "not a domain"',
        'providers[2].create_users needs roles or default_role',
        'providers[3] must be an object',
        'two providers are named same',
      ])
        assert.ok(message.includes(part), `${part}\n\n${message}`)
      assert.ok(!message.includes('hush'))
      return true
    },
  )
})

test('a file that is not there, not YAML or not a list says so', () => {
  assert.throws(() => readProviders(join(folder, 'nowhere')), /cannot be read/)
  assert.throws(() => read('providers: ['), /cannot be read/)
  assert.throws(() => read('[]'), /must have one field, providers/)
})
