import { hash } from 'node:crypto'
import { type Connection, call, Refused, SentForApproval } from '../call.ts'
import { paths } from '../document.ts'
import { Failure } from '../exits.ts'
import { type Allowed, queryFor } from './execute.ts'
import { createGuard } from './guard.ts'
import { replaceText, type Step } from './plan.ts'

type Change = { operation: string; parameters?: Record<string, string | boolean>; body?: object }
type ChangeSet = { id: string; state: string; description?: string }

/** What the service takes at once. */
const [maxChanges, maxBytes] = [500, 1024 * 1024]

/** Whether changes of the account can need approval. A key that may not ask meets it at the first change that does. */
export async function needsApproval(connection: Connection): Promise<boolean> {
  try {
    const { text } = await call(connection, { method: 'GET', path: '/approval_policy' })
    return (JSON.parse(text) as { required_for: string[] }).required_for.length > 0
  } catch (error) {
    if (error instanceof Refused && [403, 404].includes(error.status)) return false
    throw error
  }
}

/**
 * All steps as one change set, so that they are looked at and approved together. Throws SentForApproval when they have to
 * wait. Resolves to the generation when they did not.
 */
export async function applyTogether(
  connection: Connection,
  steps: readonly Step[],
  allowed: Allowed,
): Promise<number | undefined> {
  const changes = toChanges(steps, allowed)
  const description = `gatehouse state ${hash('sha256', JSON.stringify(changes)).slice(0, 12)}`
  const body = JSON.stringify({ description, changes })
  if (changes.length > maxChanges || Buffer.byteLength(body) > maxBytes)
    throw new Failure(
      'refused',
      `changes of this account need approval, and ${changes.length} changes are too many to be approved at once; nothing was changed`,
      [
        `A change set has at most ${maxChanges} changes and 1 MiB. Apply a part of the file first, such as one section.`,
      ],
    )
  await refuseChanged(connection, steps)
  const made = (await findWaiting(connection, description)) ?? (await create(connection, body))
  const { id, state } = JSON.parse(made) as ChangeSet
  if (state !== 'draft') throw new SentForApproval(made)
  const query = {
    ...(allowed.isConfirmed && { confirm: true }),
    ...(allowed.ignoreAccessTests && { ignore_access_tests: true }),
  }
  const { headers } = await call(connection, { method: 'POST', path: `/change_sets/${id}/apply`, query, body: '{}' })
  return Number(headers.get('service-generation')) || undefined
}

const create = async (connection: Connection, body: string): Promise<string> =>
  (await call(connection, { method: 'POST', path: '/change_sets', body })).text

/** Running it again must not make another one. */
async function findWaiting(connection: Connection, description: string): Promise<string | undefined> {
  for (const state of ['waiting', 'approved']) {
    const { text } = await call(connection, { method: 'GET', path: '/change_sets', query: { state, limit: 100 } })
    const { change_sets } = JSON.parse(text) as { change_sets: ChangeSet[] }
    const same = change_sets.find((each) => each.description === description)
    if (same) return (await call(connection, { method: 'GET', path: `/change_sets/${same.id}` })).text
  }
  return undefined
}

/** What exists must be as it was when the plan was made. From here on the change set remembers how it found it. */
async function refuseChanged(connection: Connection, steps: readonly Step[]): Promise<void> {
  const guard = createGuard(connection)
  const seen = new Set<string>()
  for (const step of steps) {
    const path = step.path.join('')
    if (seen.has(path)) continue
    seen.add(path)
    await guard.headersFor(step, path)
  }
}

/** With references in place of what earlier steps create. */
export function toChanges(steps: readonly Step[], allowed: Allowed): Change[] {
  const references = new Map(
    steps.flatMap(({ makes }, index) => (makes ? [[makes, `{{changes[${index}].id}}`] as const] : [])),
  )
  return steps.map((step) => {
    const path = step.path.map((part) => references.get(part) ?? part).join('')
    const { operation, parameters } = operationAt(step.method, path)
    const { allow_self_lockout } = queryFor(step, allowed)
    const given = { ...parameters, ...(allow_self_lockout && { allow_self_lockout }) }
    return {
      operation,
      ...(Object.keys(given).length > 0 && { parameters: given }),
      ...(step.body && { body: replaceText(step.body, references) as object }),
    }
  })
}

function operationAt(method: string, path: string): { operation: string; parameters: Record<string, string> } {
  for (const [template, operations] of Object.entries(paths())) {
    const operation = operations[method.toLowerCase()]?.operationId
    const found = new RegExp(`^${template.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`).exec(path)
    if (operation && found) return { operation, parameters: { ...found.groups } }
  }
  throw new Error(`no operation is at ${method} ${path}`)
}
