import { type IdPrefix, idPrefixes } from '../../kernel/ids.ts'
import { describeExtent, type Extent } from '../../kernel/unusual_change.ts'
import { type ChangeImpact, describeFailedTest, describeImpact, type FailedAccessTest } from './impact.ts'
import { printable, styled } from './terminal.ts'

type Json = Record<string, unknown>
export type NameOf = (id: string) => string

/** A value for people: ids are replaced by known names. */
function told(value: unknown, nameOf: NameOf): string {
  if (value === undefined || value === null) return 'none'
  if (typeof value === 'string') return printable(nameOf(value)).replaceAll('\n', '\\n')
  if (Array.isArray(value)) return `[${value.map((each) => told(each, nameOf)).join(', ')}]`
  if (typeof value !== 'object') return String(value)
  return `{${Object.entries(value)
    .map(([name, each]) => `${printable(nameOf(name))}: ${told(each, nameOf)}`)
    .join(', ')}}`
}

export function fieldLines(name: string, before: unknown, after: unknown, nameOf: NameOf): string[] {
  const areGroups = [before, after].every((value) => value && typeof value === 'object' && !Array.isArray(value))
  if (!areGroups) {
    const from = before === undefined ? '' : `${told(before, nameOf)} → `
    return [`${name}: ${from}${told(after, nameOf)}`]
  }
  return changedFields(before as Json, after as Json).flatMap((inner) =>
    fieldLines(`${name}.${printable(nameOf(inner))}`, (before as Json)[inner], (after as Json)[inner], nameOf),
  )
}

const changedFields = (before: Json, after: Json): string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  )

export const marks = { created: styled('green', '+'), changed: styled('yellow', '~'), deleted: styled('red', '-') }

type Difference = { readonly resource: string; readonly before: Json | null; readonly after: Json | null }
/** The API's description of a change or a change set. */
type DryRunResult = {
  readonly differences: readonly Difference[]
  readonly impact: ChangeImpact
  readonly failed_access_tests: readonly FailedAccessTest[]
  readonly conflicts?: readonly string[]
  readonly needs_confirmation: readonly Extent[]
  readonly needs_approval: boolean
}

/** Fields that locate a resource instead of describing it. */
const places = ['id', 'uri', 'created_at']

function describe({ resource, before, after }: Difference): string {
  const noun = idPrefixes[resource.split('_')[0] as IdPrefix] ?? 'resource'
  const became = outcomeOf(before, after)
  // A resource that would be created gets another id later.
  const title = `${marks[became]} ${became === 'created' ? `new ${noun}` : `${noun} ${resource}`}`
  if (became === 'deleted') return title
  // A new resource is described by its fields.
  const isTold = (name: string) => !places.includes(name) && (before !== null || after?.[name] !== null)
  const changed = changedFields(before ?? {}, after ?? {}).filter(isTold)
  const lines = changed.flatMap((name) => fieldLines(name, before?.[name], after?.[name], (id) => id))
  return [title, ...lines.map((line) => `    ${line}`)].join('\n')
}

/** Setting or removing a module changes its owner: only whole resources have an id. */
function outcomeOf(before: Json | null, after: Json | null): keyof typeof marks {
  if ((before ?? after)?.id === undefined || (before && after)) return 'changed'
  return before ? 'deleted' : 'created'
}

export const describeDryRun = (result: DryRunResult): string =>
  [
    ...(result.differences.length === 0 ? ['Nothing would change.'] : result.differences.map(describe)),
    ...describeImpact(result.impact),
    ...result.failed_access_tests.map(describeFailedTest),
    ...(result.conflicts?.length ? [`Changed since the draft was made: ${result.conflicts.join(', ')}.`] : []),
    ...result.needs_confirmation.map((extent) => `Needs --confirm: it ${describeExtent(extent)}.`),
    ...(result.needs_approval ? ['Needs the approval of another admin.'] : []),
  ].join('\n')
