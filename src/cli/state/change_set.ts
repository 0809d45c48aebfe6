import { hash, randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { type Call, type Connection, call, Refused, SentForApproval } from '../call.ts'
import { paths } from '../document.ts'
import { Failure } from '../exits.ts'
import { whileWaiting } from '../output/progress.ts'
import { titleOf } from './describe.ts'
import { type Allowed, queryFor } from './execute.ts'
import { createGuard, lookAtDifference } from './guard.ts'
import { replaceText, type Step } from './plan.ts'

type Change = { operation: string; parameters?: Record<string, string | boolean>; body?: object }
type ChangeSet = {
  id: string
  state: string
  description?: string
  changes?: readonly Change[]
  generation: number | null
}

/** Maximum steps in one change set of the service. */
const [maxChanges, maxBytes] = [2_000, 1024 * 1024]

/**
 * Whether changes of the account may need approval. A key that may not query this finds out at the first such change.
 */
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
 * Makes all steps in one change set: all of them, or none. Throws SentForApproval if they have to wait; otherwise
 * resolves to the generation.
 */
export async function applyTogether(
  connection: Connection,
  steps: readonly Step[],
  allowed: Allowed,
): Promise<number | undefined> {
  const changes = toChanges(steps, allowed)
  const description = `gatehouse state ${hash('sha256', JSON.stringify(changes)).slice(0, 12)}`
  refuseTooLarge(steps, changes, Buffer.byteLength(JSON.stringify({ description, changes })))
  try {
    const { text, isNew } = await whileWaiting(
      `trying ${changes.length} changes`,
      draft(connection, { description, changes }),
    )
    const { id, state } = JSON.parse(text) as ChangeSet
    try {
      // The draft has recorded its starting point, so changes by others are conflicts from here on.
      await refuseChanged(connection, steps)
      if (state !== 'draft') throw new SentForApproval(text)
      return await whileWaiting(`applying ${changes.length} changes`, apply(connection, id, allowed))
    } catch (error) {
      const isOver = error instanceof Failure && !['waiting', 'unreachable'].includes(error.exit)
      if (isOver && isNew)
        await call(connection, { method: 'DELETE', path: `/change_sets/${id}` }).catch(() => undefined)
      throw error
    }
  } catch (error) {
    throw error instanceof Refused ? await refusedAs(error, connection, steps) : error
  }
}

function refuseTooLarge(steps: readonly Step[], changes: readonly Change[], bytes: number): void {
  if (changes.length <= maxChanges && bytes <= maxBytes) return
  const [largest] = changes
    .map((change, index) => ({ index, bytes: Buffer.byteLength(JSON.stringify(change)) }))
    .toSorted((a, b) => b.bytes - a.bytes)
  const step = largest && steps[largest.index]
  throw new Failure(
    'refused',
    `the file needs ${changes.length} changes of ${readable(bytes)} together, and at most ${maxChanges} changes of 1 MiB can be made at once; nothing was changed`,
    [
      ...(step && largest.bytes > maxBytes / 4
        ? [`The largest is ${step.verb} ${titleOf(step.thing)}, with ${readable(largest.bytes)}.`]
        : []),
      'Apply a part of the file first, such as one section: what is not in a file is left alone.',
      'Or add --one-by-one. It makes each change by itself, and a run that fails stops between two of them.',
    ],
  )
}
const readable = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`

/** A second run must not create another change set. A draft of an earlier run is brought up to date. */
async function draft(
  connection: Connection,
  set: { description: string; changes: readonly Change[] },
): Promise<{ text: string; isNew: boolean }> {
  const found = await findSame(connection, set)
  if (!found) return { ...(await send(connection, 'POST', '/change_sets', set)), isNew: true }
  const { id, state } = JSON.parse(found) as ChangeSet
  if (state !== 'draft') return { text: found, isNew: false }
  return { ...(await send(connection, 'PATCH', `/change_sets/${id}`, { changes: set.changes })), isNew: true }
}

const send = (connection: Connection, method: string, path: string, body: object) =>
  call(connection, {
    ...{ method, path, body: JSON.stringify(body) },
    ...(method === 'POST' && { headers: { 'idempotency-key': randomUUID() } }),
  })

async function findSame(
  connection: Connection,
  { description, changes }: { description: string; changes: readonly Change[] },
): Promise<string | undefined> {
  for (const state of ['waiting', 'approved', 'draft']) {
    const { text } = await call(connection, { method: 'GET', path: '/change_sets', query: { state, limit: 100 } })
    const { change_sets } = JSON.parse(text) as { change_sets: ChangeSet[] }
    for (const { id } of change_sets.filter((each) => each.description === description)) {
      const { text } = await call(connection, { method: 'GET', path: `/change_sets/${id}` })
      // Anyone who may propose changes can choose any description.
      if (isDeepStrictEqual((JSON.parse(text) as ChangeSet).changes, JSON.parse(JSON.stringify(changes)))) return text
    }
  }
  return undefined
}

/**
 * The same key makes the request idempotent, so a lost response is requested again until the timeout. Resolves to the
 * generation.
 */
async function apply(
  connection: Connection,
  id: string,
  { isConfirmed, ignoreAccessTests }: Allowed,
): Promise<number | undefined> {
  const query = {
    ...(isConfirmed && { confirm: true }),
    ...(ignoreAccessTests && { ignore_access_tests: true }),
  }
  const request: Call = {
    ...{ method: 'POST', path: `/change_sets/${id}/apply`, query, body: '{}' },
    headers: { 'idempotency-key': randomUUID() },
  }
  const deadline = Date.now() + connection.timeoutMs
  for (;;)
    try {
      const { headers } = await call(connection, request)
      return Number(headers.get('service-generation')) || undefined
    } catch (error) {
      // Another run of the same file was faster.
      if (error instanceof Refused && error.code === 'ERR_CHANGE_SET_APPLIED')
        return generationOf(connection, id, error)
      if (!(error instanceof Failure) || error.exit !== 'unreachable') throw error
      if (Date.now() > deadline) throw unknownOutcome(error)
      await setTimeout(1_000)
    }
}

async function generationOf(connection: Connection, id: string, error: Refused): Promise<number | undefined> {
  const { text } = await call(connection, { method: 'GET', path: `/change_sets/${id}` })
  const { state, generation } = JSON.parse(text) as ChangeSet
  if (!['applied', 'confirmed'].includes(state)) throw error
  return generation ?? undefined
}

const unknownOutcome = ({ message, hints }: Failure): Failure =>
  new Failure(
    'unreachable',
    `${message} It is not known whether the changes were made: either all of them were, or none.`,
    [
      ...hints,
      'When the service answers again, run the command again. It finds out, and makes them if they were not made.',
    ],
  )

/** Uses the file's names, and says what to do. */
async function refusedAs(error: Refused, { url }: Connection, steps: readonly Step[]): Promise<Failure> {
  const { msg = error.message, details = {} } = error.body
  const { change, code = '', reason = msg, resources, missing } = details as Record<string, string | undefined>
  const step = error.code === 'ERR_CHANGE_REFUSED' ? steps[Number(change)] : undefined
  if (step) {
    const hint = (await import('../hints.ts')).hintOf(code, url)
    const operation = error.hints.find((line) => line.startsWith('operation: op_'))
    const hints = [...(hint ? [`hint: ${hint}`] : []), nothingChanged, ...(operation ? [operation] : [])]
    return new Failure(error.exit, `${step.verb} ${titleOf(step.thing)}: ${reason} (${code})`, hints, { cause: error })
  }
  if (error.code === 'ERR_CHANGE_SET_CONFLICT')
    return new Failure('refused', `someone else has changed ${resources} since this run read it; nothing was changed`, [
      lookAtDifference,
    ])
  const hints =
    error.code === 'ERR_SCOPE' && missing?.startsWith('change_sets.')
      ? ['A state file is applied as one change set. Add the scope change_sets.* to the key, or use --one-by-one.']
      : []
  return new Failure(error.exit, error.message, [...error.hints, ...hints, nothingChanged], { cause: error })
}
const nothingChanged = 'Nothing was changed.'

/** Existing resources must be unchanged since the plan. */
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

/** Replaces the ids of resources that earlier steps create by references. */
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
