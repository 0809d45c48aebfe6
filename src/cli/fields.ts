import { closest } from '../kernel/closest.ts'
import { type Failure, usageFailure } from './exits.ts'

/** The field's name in a response and in a table's head. */
export const fieldName = (typed: string): string => typed.toLowerCase().replaceAll(/[ -]/g, '_')

/** The path to a value: `tls.enabled` is a nested field. */
export function pathOf(flag: string, typed: string, fields: readonly string[]): string[] {
  const path = fieldName(typed).split('.')
  if (!fields.includes(path[0] ?? '')) throw unknownField(flag, typed, fields)
  return path
}

export function unknownField(flag: string, typed: string, fields: readonly string[]): Failure {
  const meant = closest(fieldName(typed), fields)
  return usageFailure(
    `${flag}: there is no field '${typed}'`,
    ...(meant ? [`Did you mean ${meant}?`] : []),
    `Fields: ${fields.join(', ')}.`,
  )
}
