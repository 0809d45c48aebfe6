import type { Shapes } from '../../../clients/typescript/src/client.ts'

export type Planned = Shapes['ChangeSetCreate']['changes'][number]

const reference = /\{\{changes\[(\d+)\]\.id\}\}/g
export const referenceTo = (index: number): string => `{{changes[${index}].id}}`

/** Rewrites references to earlier changes. */
const withReferences = (change: Planned, place: (index: number) => number): Planned =>
  JSON.parse(JSON.stringify(change).replace(reference, (_, index: string) => referenceTo(place(Number(index)))))

/** Shifts references by the number of changes placed before these. */
export const movedBy = (changes: readonly Planned[], offset: number): Planned[] =>
  changes.map((change) => withReferences(change, (index) => index + offset))

const refersTo = (change: Planned, index: number): boolean => JSON.stringify(change).includes(referenceTo(index))

/** A change and all changes that refer to what it creates. */
export function dependentsOf(changes: readonly Planned[], index: number): ReadonlySet<number> {
  const gone = new Set([index])
  for (const [at, change] of changes.entries())
    if ([...gone].some((each) => each < at && refersTo(change, each))) gone.add(at)
  return gone
}

/** Removes a change and its dependents. */
export function without(changes: readonly Planned[], index: number): Planned[] {
  const gone = dependentsOf(changes, index)
  const kept = [...changes.keys()].filter((each) => !gone.has(each))
  return kept.map((each) => withReferences(changes[each] as Planned, (named) => kept.indexOf(named)))
}

/** The later change that fully overrides this one. */
export function overwrittenBy(changes: readonly Planned[], index: number): number | undefined {
  const { operation, parameters } = changes[index] as Planned
  if (!/\.replace(_rules)?$/.test(operation)) return undefined
  const key = (each: Planned) => JSON.stringify([each.operation, Object.entries(each.parameters ?? {}).toSorted()])
  const last = changes.findLastIndex((each) => key(each) === key({ operation, ...(parameters && { parameters }) }))
  return last > index ? last : undefined
}
