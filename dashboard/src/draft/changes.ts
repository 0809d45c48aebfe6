import type { Shapes } from '../../../clients/typescript/src/client.ts'

export type Planned = Shapes['ChangeSetCreate']['changes'][number]

const reference = /\{\{changes\[(\d+)\]\.id\}\}/g
export const referenceTo = (index: number): string => `{{changes[${index}].id}}`

/** With each reference to an earlier change replaced. */
const withReferences = (change: Planned, place: (index: number) => number): Planned =>
  JSON.parse(JSON.stringify(change).replace(reference, (_, index: string) => referenceTo(place(Number(index)))))

/** As they are behind `offset` others. */
export const movedBy = (changes: readonly Planned[], offset: number): Planned[] =>
  changes.map((change) => withReferences(change, (index) => index + offset))

const refersTo = (change: Planned, index: number): boolean => JSON.stringify(change).includes(referenceTo(index))

/** A change, and those that need what it creates. */
export function dependentsOf(changes: readonly Planned[], index: number): ReadonlySet<number> {
  const gone = new Set([index])
  for (const [at, change] of changes.entries())
    if ([...gone].some((each) => each < at && refersTo(change, each))) gone.add(at)
  return gone
}

/** Without a change and those that need it. */
export function without(changes: readonly Planned[], index: number): Planned[] {
  const gone = dependentsOf(changes, index)
  const kept = [...changes.keys()].filter((each) => !gone.has(each))
  return kept.map((each) => withReferences(changes[each] as Planned, (named) => kept.indexOf(named)))
}

/** The later change that leaves nothing of this one: it sets the same to something else. */
export function overwrittenBy(changes: readonly Planned[], index: number): number | undefined {
  const { operation, parameters } = changes[index] as Planned
  if (!/\.replace(_rules)?$/.test(operation)) return undefined
  const key = (each: Planned) => JSON.stringify([each.operation, Object.entries(each.parameters ?? {}).toSorted()])
  const last = changes.findLastIndex((each) => key(each) === key({ operation, ...(parameters && { parameters }) }))
  return last > index ? last : undefined
}
