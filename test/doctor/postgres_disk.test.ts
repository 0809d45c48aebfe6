import assert from 'node:assert/strict'
import { test } from 'node:test'
import { asAppRole } from '../../dev/app_role.ts'
import { newDatabase } from '../harness/control_plane.ts'
import { diagnose, query } from './setup.ts'

test('a database that accepts no changes is reported', async () => {
  const url = await newDatabase()
  const disk = async () => {
    const { findings } = await diagnose({ GATEHOUSE_DATABASE_URL: asAppRole(url) })
    return findings.find(({ check }) => check === 'postgresql.disk')
  }
  assert.equal((await disk())?.status, 'ok')
  await query(url, `alter database ${new URL(url).pathname.slice(1)} set default_transaction_read_only = on`)
  const { status, message } = (await disk()) ?? assert.fail()
  assert.equal(status, 'failed')
  assert.match(message, /^PostgreSQL accepts no changes/)
})
