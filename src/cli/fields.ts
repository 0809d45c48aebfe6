import { closest } from '../kernel/closest.ts'
import { type Failure, usageFailure } from './exits.ts'

/** As it is in the answer, or as the head of a table shows it. */
export const fieldName = (typed: string): string => typed.toLowerCase().replaceAll(/[ -]/g, '_')

/** The steps to a value: `tls.enabled` is a field within a field. */
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
