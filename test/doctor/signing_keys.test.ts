import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { asAppRole } from '../../dev/app_role.ts'
import { gatehouse } from '../harness/command.ts'
import { diagnose, type Environment, healthySetUp, write } from './setup.ts'

const { folder, controlPlane, databaseUrl: url } = await healthySetUp({ after })

test('signing keys in clear are a warning, with what to do about them', async () => {
  const env = { ...controlPlane, GATEHOUSE_DATABASE_URL: asAppRole(url) }
  const stored = async (more: Environment = {}) =>
    (await diagnose({ ...env, ...more })).findings.filter(({ check }) => check === 'secrets.stored')
  await gatehouse(['signing-keys', 'add'], { GATEHOUSE_DATABASE_URL: url })
  const [finding, ...others] = await stored()
  assert.deepEqual([finding?.status, others], ['warning', []])
  assert.match(finding?.message ?? '', /^one signing key is stored in clear/)
  assert.match(finding?.hint ?? '', /^Run 'gatehouse secrets rotate'/)
  assert.match((await stored({ GATEHOUSE_SECRETS_KEY_FILE: '' }))[0]?.hint ?? '', /^Set GATEHOUSE_SECRETS_KEY_FILE/)
  assert.equal((await gatehouse(['secrets', 'rotate'], env)).code, 0)
  assert.deepEqual(await stored(), [])
  const other = await write(join(folder, 'other.key'), `${Buffer.alloc(32, 'other').toString('base64')}\n`)
  const [lost] = await stored({ GATEHOUSE_SECRETS_KEY_FILE: other })
  assert.equal(lost?.status, 'failed')
  assert.match(lost?.message ?? '', /^1 signing keys are encrypted with the key .* No change is published/)
})
