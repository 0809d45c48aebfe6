// Validates a configuration before planning.
import { valueFaults } from '../cli/values/faults.ts'
import { attribute, type Diagnostic, failureAt } from './diagnostics.ts'
import type { Field } from './fields.ts'
import { isObject, unknownValue, type Value } from './message_pack.ts'
import type { State } from './values.ts'

/** Skips values known only after apply. */
function knownPart(value: Value): unknown {
  if (value === unknownValue) return undefined
  if (Array.isArray(value)) return value.map(knownPart)
  return isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, knownPart(each)]))
    : value
}

/** Faults that the schemas can detect. The service checks further rules. */
export const configFaults = (fields: readonly Field[], config: State): Diagnostic[] =>
  fields
    .filter(({ isInput }) => isInput)
    .flatMap(({ name, schema }) => valueFaults([name], schema, knownPart(config[name] ?? null)))
    .map(({ place, fault }) => failureAt(place, fault))

/** Terraform versions without support for write-only attributes would store them. */
export const writeOnlyFaults = (fields: readonly Field[], config: State): Diagnostic[] =>
  fields
    .filter(({ name, isWriteOnly }) => isWriteOnly && (config[name] ?? null) !== null)
    .map(({ name }) => ({
      ...failureAt([name], 'needs Terraform 1.11 or newer'),
      detail: 'Older versions would write it into the state.',
      attribute: attribute(name),
    }))
