import assert from 'node:assert/strict'
import type { Client } from '../harness/client.ts'
import type { Make } from './expectation.ts'

export const make =
  (path: string, body: () => object): Make =>
  async (as) => {
    const created = await as('POST', path, body())
    assert.equal(created.status, 201, created.text)
    return created.body.id
  }
export const id = (one: Make) => async (as: Client) => ({ id: await one(as) })
