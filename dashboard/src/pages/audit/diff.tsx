import type { AuditEvent } from './describe.ts'

type Change = { field: string; before: string | undefined; after: string | undefined }

// Told elsewhere on the page, or the same in every event.
const unsaid = new Set(['id', 'uri', 'created_at'])

/** The fields in which two states differ, one line each. A field of objects is taken apart, so that a change is small. */
export function changesBetween(before: unknown, after: unknown, place = ''): Change[] {
  if (isObject(before) || isObject(after)) {
    const [from, to] = [isObject(before) ? before : {}, isObject(after) ? after : {}]
    const fields = new Set([...Object.keys(from), ...Object.keys(to)])
    return [...fields]
      .filter((field) => !(place ? field === 'uri' : unsaid.has(field)))
      .flatMap((field) => changesBetween(from[field], to[field], place ? `${place}.${field}` : field))
  }
  const [from, to] = [shown(before), shown(after)]
  return from === to ? [] : [{ field: place, before: from, after: to }]
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function shown(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value === 'string') return value
  if (Array.isArray(value))
    return value.map((item) => (isObject(item) ? String(item.id ?? JSON.stringify(item)) : String(item))).join(', ')
  return JSON.stringify(value)
}

export function Diff({ event: { before, after } }: { event: AuditEvent }) {
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
                  {from}
                </del>
              )}
              {to !== undefined && (
                <ins>
                  <span aria-hidden="true">+ </span>
                  {to}
                </ins>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
