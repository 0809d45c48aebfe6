import { describeExtent, type Extent, isUnusual, type UnusualAbove } from '../../kernel/unusual_change.ts'
import { type Connection, call, Refused } from '../call.ts'
import { Failure } from '../exits.ts'
import { canAsk, confirm, log } from '../output/terminal.ts'
import type { Rule, Thing } from './kinds.ts'
import type { Plan, Step } from './plan.ts'

/** Records that the service counts as being at the edge. */
const isEdgeEntry = ({ kind }: Thing) => /^(\w*backends|tcp_edges|https_edges|routes)$/.test(kind)

/**
 * What needs to be confirmed, judged for the whole run: the service sees one request at a time. Each replacement of rules is
 * judged as well, because the service will refuse it. Nothing with a service that does not say what is unusual.
 */
export async function unusualIn(connection: Connection, plan: Plan, account: readonly Thing[]): Promise<Extent[]> {
  const extents = [edgeExtent(plan, account), ...ruleExtents(plan.steps)]
  if (!extents.some(({ before, added, removed }) => before > 0 && added + removed > 0)) return []
  const above = await aboveOf(connection)
  return above ? extents.filter((extent) => isUnusual(extent, above)) : []
}

/** A key for state files may lack the scope. */
const byDefault: UnusualAbove = { entries: 20, percent: 50 }
async function aboveOf(connection: Connection): Promise<UnusualAbove | undefined> {
  try {
    const { text } = await call(connection, { method: 'GET', path: '/caller' })
    return (JSON.parse(text) as { unusual_above?: UnusualAbove }).unusual_above
  } catch (error) {
    if (error instanceof Refused && error.code === 'ERR_SCOPE') return byDefault
    throw error
  }
}

function edgeExtent({ steps }: Plan, account: readonly Thing[]): Extent {
  const countOf = (things: readonly Thing[]) =>
    things.filter(isEdgeEntry).reduce((sum, { routes = [] }) => sum + 1 + routes.length, 0)
  const deleted = steps.filter(({ verb }) => verb === 'delete').map(({ thing }) => thing)
  return {
    ...{ of: 'edge_entries', resource: '', before: countOf(account) },
    added: steps.filter(({ verb, thing }) => verb === 'create' && isEdgeEntry(thing)).length,
    removed: countOf(deleted),
  }
}

/** A policy in use is narrowed first and widened later. */
function ruleExtents(steps: readonly Step[]): Extent[] {
  const current = new Map<string, ReadonlySet<string>>()
  return steps.flatMap(({ method, present, body }) => {
    const id = present?.id
    if (method !== 'PUT' || id === undefined) return []
    const before = current.get(id) ?? keysOf(present?.rules)
    const after = keysOf(body?.rules as readonly Rule[] | undefined)
    current.set(id, after)
    const [added, removed] = [after.difference(before).size, before.difference(after).size]
    return [{ of: 'ip_policy_rules', resource: id, before: before.size, added, removed }]
  })
}

/** Compares as the service does: a rule with another description counts as unchanged. */
const keysOf = (rules: readonly Rule[] = []) => new Set(rules.map(({ action, cidr }) => `${action} ${cidr}`))

export function tellUnusual(unusual: readonly Extent[]): void {
  for (const extent of unusual) log(`warning: this is unusually much. The run ${describeExtent(extent)}.`)
}

/** Runs before anything is sent. `canRead`: standard input is not the file. */
export async function agreeToUnusual(
  unusual: readonly Extent[],
  { isConfirmed, canRead }: { isConfirmed: boolean; canRead: boolean },
): Promise<void> {
  if (unusual.length === 0 || isConfirmed) return
  if (!canAsk() || !canRead)
    throw new Failure('refused', 'the change is unusually large and was not confirmed; nothing was changed', [
      'Compare the numbers with what you meant to change. If they are right, add --confirm. --dry-run shows the whole change.',
    ])
  if (!(await confirm('Make this change?'))) throw new Failure('usage', 'canceled; nothing was changed')
}
