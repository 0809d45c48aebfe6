import { type Document, isMap, isNode, isScalar, type LineCounter, type Node } from 'yaml'
import { Failure } from '../exits.ts'
import type { Place } from '../values/faults.ts'
import type { Json } from './kinds.ts'

class Fault extends Error {
  readonly place: Place
  constructor(place: Place, message: string) {
    super(message)
    this.place = place
  }
}

export const fault = (place: Place, message: string): Error => new Fault(place, message)

export type Faults = {
  /** The parsed value. Undefined if it is faulty: parsing continues, so that people can correct all faults at once. */
  readonly collect: <T>(read: () => T) => T | undefined
  readonly throwIfAny: () => void
}

/** A longer list is not read at once. */
const mostShown = 20

export function createFaults(document: Document, lines: LineCounter): Faults {
  const found = document.errors.map(({ message, pos: [offset] }) => ({
    offset,
    // The rest is the parser's own line number and excerpt.
    text: `the state file: ${message.replace(/ at line \d+, column \d+:.*$/s, '')}`,
  }))
  return {
    collect(read) {
      try {
        return read()
      } catch (error) {
        if (!(error instanceof Fault)) throw error
        found.push({ offset: offsetOf(document, error.place), text: `${shown(error.place)}: ${error.message}` })
        return undefined
      }
    },
    throwIfAny() {
      if (found.length === 0) return
      const told = found
        .toSorted((one, other) => one.offset - other.offset)
        .map(({ offset, text }) => {
          const { line, col } = lines.linePos(offset)
          return `line ${line}, column ${col}: ${text}`
        })
      const [first = '', ...others] = told
      if (others.length === 0) throw new Failure('refused', first)
      const rest = told.length - mostShown
      throw new Failure('refused', `the state file has ${told.length} faults`, [
        ...told.slice(0, mostShown),
        ...(rest > 0 ? [`and ${rest} more`] : []),
      ])
    },
  }
}

const shown = (place: Place): string =>
  place.length === 0
    ? 'the state file'
    : place.map((step, index) => (typeof step === 'number' ? `[${step}]` : index ? `.${step}` : step)).join('')

/** The line of a field's name instead of its value, which may begin some lines below. */
function offsetOf(document: Document, place: Place): number {
  const last = place.at(-1)
  const parent = place.length > 1 ? document.getIn(place.slice(0, -1), true) : document.contents
  const key = isMap(parent)
    ? parent.items.find((pair) => (isScalar(pair.key) ? String(pair.key.value) : undefined) === String(last))?.key
    : undefined
  const node = key ?? (place.length ? document.getIn(place, true) : document.contents)
  return (isNode(node) ? (node as Node).range?.[0] : undefined) ?? 0
}

export function asObject(place: Place, value: unknown): Json {
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    throw fault(place, 'must be a map of names to values')
  return value as Json
}

export function asList(place: Place, value: unknown): unknown[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw fault(place, 'must be a list')
  return value
}
