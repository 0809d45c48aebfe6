import type { Schema } from '../document.ts'
import { type Place, valueFaults } from '../values/faults.ts'
import { type Faults, fault } from './faults.ts'

/** Finds every fault that the service would refuse, with its line, without contacting the service. */
export function checkValue(place: Place, schema: Schema, value: unknown, collect: Faults['collect']): void {
  for (const found of valueFaults(place, schema, value))
    collect(() => {
      throw fault(found.place, found.fault)
    })
}

/** Refuses the second of two conflicting entries. */
export function checkDistinct(
  entries: readonly { readonly place: Place; readonly key: string }[],
  what: string,
  collect: Faults['collect'],
): void {
  const seen = new Set<string>()
  for (const { place, key } of entries)
    collect(() => {
      if (seen.has(key)) throw fault(place, `repeats ${what} ${key}`)
      seen.add(key)
    })
}
