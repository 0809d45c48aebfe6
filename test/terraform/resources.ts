import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { paths } from '../../src/cli/document.ts'
import type { Resource } from '../../src/terraform/catalog.ts'
import { fixturesWith } from '../generated_clients/fixtures.ts'
import type { Client } from '../harness/client.ts'
import type { SharedControlPlane } from '../harness/shared_control_plane.ts'

export type Config = Record<string, unknown>
type Ports = Pick<SharedControlPlane, 'freshTcpPort'>

export const pathOf = ({ read }: Resource, state: object): string =>
  read.path.replaceAll(/\{(\w+)\}/g, (_, name) => String(Reflect.get(state, name)))

/** For a resource that is not there yet: only what is required, and every field set to something else than its default. */
export async function configurationsOf(
  { freshTcpPort }: Ports,
  as: Client,
  resource: Resource,
): Promise<{ least: Config; full: Config }> {
  const full = await fullConfiguration(fixturesWith(freshTcpPort), as, resource)
  const required = resource.fields.filter(({ isRequired }) => isRequired).map(({ name }) => name)
  const least = Object.fromEntries(Object.entries(full).filter(([name]) => required.includes(name)))
  return { least, full }
}

async function fullConfiguration(
  fixtures: ReturnType<typeof fixturesWith>,
  as: Client,
  resource: Resource,
): Promise<Config> {
  const operation = paths()[resource.read.path]?.patch?.operationId
  // The one resource that cannot be changed.
  if (!operation) return { owner_id: await newUser(as), issuer: 'https://id.example.com', subject: randomUUID() }
  const { params, sent } = (await fixtures[operation]?.(as)) ?? assert.fail(`there is no fixture for ${operation}`)
  const { status } = await as('DELETE', pathOf(resource, params))
  assert.equal(status, 204)
  const { id: _, ...parents } = params
  return Object.fromEntries(Object.entries({ ...parents, ...sent }).filter(([, value]) => value !== null))
}

const newUser = async (as: Client): Promise<string> =>
  (await as('POST', '/users', { name: 'Grace', email: `${randomUUID()}@example.com` })).body.id
