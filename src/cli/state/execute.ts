import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { toRuleLine } from '../../kernel/ip/rule_line.ts'
import { appliedFault } from '../applied.ts'
import { type Call, type Connection, call } from '../call.ts'
import { Failure } from '../exits.ts'
import { startProgress, whileWaiting } from '../output/progress.ts'
import { titleOf } from './describe.ts'
import { createGuard } from './guard.ts'
import type { Json, Rule, Thing } from './kinds.ts'
import { replaceText, type Step } from './plan.ts'

/** Operations that can lock the caller out, and accept allow_self_lockout. */
const guarded = new Set<Thing['kind']>(['ip_policies', 'ip_restrictions'])
const mayLockOut = ({ thing, method }: Step) =>
  guarded.has(thing.kind) && (thing.kind === 'ip_restrictions' || method === 'PUT')

/** Operations that can break an access test, and accept ignore_access_tests. */
const mayBreakTests = (step: Step) =>
  mayLockOut(step) ||
  step.thing.kind === 'routes' ||
  (step.thing.kind === 'tcp_edges' && step.method !== 'POST') ||
  (step.thing.kind === 'https_edges' && step.method === 'DELETE')

export type Allowed = {
  readonly allowSelfLockout: boolean
  readonly ignoreAccessTests: boolean
  readonly isConfirmed: boolean
}
export const queryFor = (step: Step, { allowSelfLockout, ignoreAccessTests, isConfirmed }: Allowed) => ({
  ...(allowSelfLockout && mayLockOut(step) && { allow_self_lockout: true }),
  ...(ignoreAccessTests && mayBreakTests(step) && { ignore_access_tests: true }),
  ...(isConfirmed && step.method === 'PUT' && { confirm: true }),
})

/** Sequential, because only this order is safe. Resolves to the last generation created. */
export async function execute(
  connection: Connection,
  steps: readonly Step[],
  allowed: Allowed,
): Promise<number | undefined> {
  const ids = new Map<string, string>()
  const guard = createGuard(connection)
  const progress = startProgress('state', steps.length)
  let generation: number | undefined
  for (const [done, step] of steps.entries()) {
    try {
      const path = step.path.map((part) => (ids.has(part) ? ids.get(part) : part)).join('')
      const sent = call(connection, {
        method: step.method,
        path,
        query: queryFor(step, allowed),
        headers: step.method === 'POST' ? { 'idempotency-key': randomUUID() } : await guard.headersFor(step, path),
        ...(step.body && bodyOf(replaceText(step.body, ids) as Json)),
      })
      const { text, headers } = await whileWaiting(titleOf(step.thing), sent)
      guard.changed(step, path, text)
      if (step.makes) ids.set(step.makes, (JSON.parse(text) as { id: string }).id)
      generation = Number(headers.get('service-generation')) || generation
    } catch (error) {
      progress.end()
      if (!(error instanceof Failure)) throw error
      throw new Failure(error.exit, `${step.verb} ${titleOf(step.thing)}: ${error.message}`, [
        ...error.hints,
        `${done} of ${steps.length} changes were made. Later changes were not attempted. Run the command again to continue.`,
      ])
    }
    progress.step(titleOf(step.thing))
  }
  progress.end()
  return generation
}

/** Rule sets are sent as text, which may be as long as a policy can be. JSON has a lower limit. */
const bodyOf = (body: Json): Pick<Call, 'body' | 'contentType'> =>
  Array.isArray(body.rules)
    ? { body: (body.rules as Rule[]).map(toRuleLine).join('\n'), contentType: 'text/plain' }
    : { body: JSON.stringify(body) }

/**
 * Waits until enough nodes, and every live one, have applied it, or for the timeout. Without any nodes, waiting is
 * pointless.
 */
export async function waitForEdges(connection: Connection, generation: number, minNodes: number): Promise<void> {
  const deadline = Date.now() + connection.timeoutMs
  for (;;) {
    const { text } = await call(connection, { method: 'GET', path: `/generations/${generation}` })
    const { behind, live_nodes: live, applied_nodes: applied } = JSON.parse(text) as GenerationState
    const fault = appliedFault({ applied, live, behind, generation }, minNodes)
    if (fault === undefined) return
    if (live === 0 || Date.now() > deadline) throw fault
    await setTimeout(250)
  }
}
type GenerationState = { behind: string[]; live_nodes: number; applied_nodes: number }
