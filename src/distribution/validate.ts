import { hash } from 'node:crypto'
import { Compile, type Validator } from 'typebox/compile'
import { type IdPrefix, isId } from '../kernel/ids.ts'
import { type RecordKey, type RecordKind, recordKinds } from './records.ts'

type Checker = { prefix: IdPrefix; fields: readonly string[]; check: Validator }

/** Compiled once: a node that starts without records checks every record of the installation. */
const checkers = Object.fromEntries(
  Object.entries(recordKinds).map(([kind, { prefix, value }]): [string, Checker] => [
    kind,
    { prefix, fields: Object.keys(value.properties), check: Compile(value) },
  ]),
) as Record<RecordKind, Checker>

/** Changes with the kinds of records and their fields, which differ between versions of this program. */
export const recordFormat: string = hash('sha256', JSON.stringify(recordKinds), 'hex').slice(0, 12)

/**
 * Why a record must not be applied; undefined if it may. The limits are those of the API: a record that bypasses the
 * API, through a defect or an attack, is refused, and the last good state stays.
 */
export function recordFault(record: unknown): string | undefined {
  if (!isObject(record)) return 'is not an object'
  const { key, generation, value } = record
  if (typeof key !== 'string') return 'has no key'
  const checker = checkerOf(key)
  if (!checker) return `has an unknown key ${quoted(key)}`
  if (!isGeneration(generation)) return 'has no generation'
  if (value === null || checker.check.Check(value)) return undefined
  return isObject(value) ? valueFault(checker, value) : 'has no value'
}

/**
 * A thousand changes a second reach it in 8,900 years. A higher generation is a defect or a damaged entry, and no valid
 * one could ever follow it: nodes and publishers treat it as unreadable, and the next comparison replaces it.
 */
const maxGeneration = 2 ** 48
/** A generation, or 0 before the first. */
export const isPosition = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= maxGeneration
export const isGeneration = (value: unknown): value is number => isPosition(value) && value >= 1

export const isRecordKey = (text: string): text is RecordKey => checkerOf(text) !== undefined

function checkerOf(key: string): Checker | undefined {
  const [kind = '', id = '', ...more] = key.split('.')
  if (more.length > 0 || !Object.hasOwn(checkers, kind)) return undefined
  const checker = checkers[kind as RecordKind]
  return isId(checker.prefix, id) ? checker : undefined
}

function valueFault({ fields, check }: Checker, value: Record<string, unknown>): string {
  const unknown = Object.keys(value).find((field) => !fields.includes(field))
  if (unknown !== undefined) return `has an unknown field ${quoted(unknown)}`
  const [error] = check.Errors(value)
  if (error?.keyword === 'required' && error.instancePath === '') return `has no ${error.params.requiredProperties[0]}`
  const field = error?.instancePath.split('/')[1]
  return field ? `has an invalid ${field}` : (error?.message ?? 'is not valid')
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const quoted = (text: string): string => JSON.stringify(text).slice(0, 80)
