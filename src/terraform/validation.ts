// What is wrong with a configuration, before anything is planned.
import { valueFaults } from '../cli/values/faults.ts'
import { attribute, type Diagnostic, failureAt } from './diagnostics.ts'
import type { Field } from './fields.ts'
import { isObject, unknownValue, type Value } from './message_pack.ts'
import type { State } from './values.ts'

/** Nothing can be said yet about a value that is only known after apply. */
function knownPart(value: Value): unknown {
  if (value === unknownValue) return undefined
  if (Array.isArray(value)) return value.map(knownPart)
  return isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, knownPart(each)]))
    : value
}

/** What the service would refuse. It has more rules, of which the document does not tell. */
export const configFaults = (fields: readonly Field[], config: State): Diagnostic[] =>
  fields
    .filter(({ isInput }) => isInput)
    .flatMap(({ name, schema }) => valueFaults([name], schema, knownPart(config[name] ?? null)))
    .map(({ place, fault }) => failureAt(place, fault))

/** A Terraform that does not know of write-only attributes would store them. */
export const writeOnlyFaults = (fields: readonly Field[], config: State): Diagnostic[] =>
  fields
    .filter(({ name, isWriteOnly }) => isWriteOnly && (config[name] ?? null) !== null)
    .map(({ name }) => ({
      ...failureAt([name], 'needs Terraform 1.11 or newer'),
      detail: 'Older versions would write it into the state.',
      attribute: attribute(name),
    }))
