import { type Names, useNames } from '../traffic/names.ts'
import type { AuditEvent } from './describe.ts'

type Change = { field: string; before: string | undefined; after: string | undefined }

// Fields shown elsewhere on the page, or equal in every event.
const unsaid = new Set(['id', 'uri', 'created_at'])

/**
 * Fields that differ between two states, one per line. Objects are compared field by field, so that a change stays
 * small.
 */
export function changesBetween(before: unknown, after: unknown, place = ''): Change[] {
  if (isObject(before) || isObject(after)) {
    const [from, to] = [isObject(before) ? before : {}, isObject(after) ? after : {}]
    const fields = new Set([...Object.keys(from), ...Object.keys(to)])
    return [...fields]
      .filter((field) => !(place ? field === 'uri' || isRepeated(field, to, from) : unsaid.has(field)))
      .flatMap((field) => changesBetween(from[field], to[field], place ? `${place}.${field}` : field))
  }
  const [from, to] = [shown(before), shown(after)]
  return from === to ? [] : [{ field: place, before: from, after: to }]
}

/** A module shows its policies twice. */
const isRepeated = (field: string, ...states: object[]): boolean =>
  field === 'ip_policy_ids' && states.some((state) => 'ip_policies' in state)

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function shown(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value === 'string') return value
  if (Array.isArray(value))
    return value.map((item) => (isObject(item) ? String(item.id ?? JSON.stringify(item)) : String(item))).join(', ')
  return JSON.stringify(value)
}

/** Replaces ids with names where known. */
const named = (text: string, { policy }: Names): string =>
  text.replaceAll(/\b(ipp|ipx|edgtcp|edghts)_[0-9a-z]{26}\b/g, (id) => policy(id))

export function Diff({ event: { before, after } }: { event: Pick<AuditEvent, 'before' | 'after'> }) {
  const names = useNames()
  const changes = changesBetween(before, after)
  if (changes.length === 0) return <p className="soft">No recorded field changed.</p>
  return (
    <table className="diff">
      <tbody>
        {changes.map(({ field, before: from, after: to }) => (
          <tr key={field}>
            <th scope="row" className="mono">
              {field}
            </th>
            <td className="mono">
              {from !== undefined && (
                <del>
                  <span aria-hidden="true">− </span>
                  {named(from, names)}
                </del>
              )}
              {to !== undefined && (
                <ins>
                  <span aria-hidden="true">+ </span>
                  {named(to, names)}
                </ins>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
